-- Topics: a named log with partitions. Publishers read this row without locking it.
-- Whoever locks the row (no key update) may write the topic's log: one sequencer at a time.
create table headrace_internal.topic (
    topic_id      integer     not null generated always as identity,
    namespace     text        not null default 'default',
    topic         text        not null,
    partitions    integer     not null default 1,
    -- Width of one time partition of the log.
    time_partition text       not null default 'month',
    -- The clock of the log: the server's, or the events' own emitted_at (for events that happened before they were published).
    clock         text        not null default 'server',
    -- Null keeps the log for ever.
    retention     interval,
    -- Retention waits for the archive: nothing is dropped that is not archived.
    archive       boolean     not null default false,
    -- Positions up to and including this one have been dropped; the log starts after it.
    dropped_to    bigint      not null default 0,
    -- The time partitions reach up to here; the sequencer adds more before it writes past it.
    log_until     timestamptz not null default '-infinity',
    -- Its branch is attached to the log: see headrace_internal.attach_log.
    attached      boolean     not null default false,
    -- No sequencer watches this topic: a publisher must send a NOTIFY at commit. Otherwise it must not.
    asleep        boolean     not null default true,
    -- When it fell asleep, by the server's own clock, and the newest position of its log then: see headrace_internal.find_due.
    asleep_at     timestamptz,
    asleep_head   bigint      not null default 0,
    -- Timers of correlators have fired up to here: the log's clock continues from it, so that no event comes before them.
    timers_to     timestamptz,
    -- Where its rules and correlators run. The cursors of their consumers are the handover from one to the other.
    engine        text        not null default 'database',
    -- A type of the namespace has a schema that payloads are checked by. Publishers read it with the row: off costs nothing.
    checks_payloads boolean   not null default false,
    -- Which schemas these are, see headrace_internal.schemas_digest: the library says by which it has checked a payload already.
    schemas_digest bigint,
    -- It has inline rules: publishers call headrace_internal.react_inline. Read with the row too.
    has_inline_rules boolean  not null default false,
    created_at    timestamptz not null default headrace.clock(),
    constraint topic_pkey primary key (topic_id),
    constraint topic_name_unique unique (namespace, topic),
    constraint topic_namespace_exists foreign key (namespace) references headrace_internal.namespace (namespace),
    constraint topic_name_rule check (topic ~ '^[a-z][a-z0-9_.-]{0,99}$'),
    constraint topic_partitions_1_to_1024 check (partitions between 1 and 1024),
    constraint topic_time_partition_known check (time_partition in ('day', 'week', 'month')),
    constraint topic_clock_known check (clock in ('server', 'event')),
    constraint topic_retention_positive check (retention > interval '0'),
    constraint topic_retention_limited check (retention <= interval '1000 years'),
    constraint topic_engine_known check (engine in ('database', 'spark'))
) with (fillfactor = 50);

-- The number of partitions of a topic from a position on. A consumer passes a border only when every
-- partition has reached it, so that a key that changes its partition keeps its order.
create table headrace_internal.topic_border (
    topic_id   integer not null,
    position   bigint  not null,
    partitions integer not null,
    constraint topic_border_pkey primary key (topic_id, position),
    constraint topic_border_topic_exists foreign key (topic_id) references headrace_internal.topic (topic_id) on delete cascade
);

-- Topics that were dropped and whose branch of the log still exists: maintenance drops it.
create table headrace_internal.dropped_topic (
    topic_id   integer     not null,
    dropped_at timestamptz not null default headrace.clock(),
    constraint dropped_topic_pkey primary key (topic_id)
);
