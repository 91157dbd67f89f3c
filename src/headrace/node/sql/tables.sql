-- Nodes: processes that run handlers. Alive while they heartbeat; see the view headrace.node_state.
create table headrace_internal.node (
    node_id      uuid        not null,
    namespace    text        not null,
    name         text        not null,
    description  text,
    metadata     jsonb       not null default '{}',
    version      text        not null,
    started_at   timestamptz not null default headrace.clock(),
    heartbeat_at timestamptz not null default headrace.clock(),
    -- Set when it stopped in order.
    stopped_at   timestamptz,
    -- The actions it handles. An action that no node handles becomes a dead letter.
    handlers     text[]      not null default '{}',
    -- It also runs the sequencer and the other loops that serve every namespace.
    sequencer    boolean     not null default false,
    -- The consumers it runs, as topic/consumer.
    consumers    text[]      not null default '{}',
    -- What it did since the heartbeat before: which partitions of which consumers, how many events and actions per minute.
    report       jsonb       not null default '{}',
    constraint node_pkey primary key (node_id),
    constraint node_namespace_exists foreign key (namespace) references headrace_internal.namespace (namespace) on delete cascade,
    constraint node_metadata_object check (jsonb_typeof(metadata) = 'object'),
    constraint node_report_object check (jsonb_typeof(report) = 'object')
) with (fillfactor = 50);
