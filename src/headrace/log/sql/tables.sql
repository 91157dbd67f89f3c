-- Topics: a named log with partitions. Publishers read this row without locking it.
-- Whoever locks the row (no key update) may write the topic's log: one sequencer at a time.
create table headrace_internal.topic (
    -- An integer, since each event has it. Admins can use up numbers by topics that they roll back, so these start again: see
    -- headrace_internal.unused_topic_id.
    topic_id      integer     not null generated always as identity (cycle),
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
    -- How many erasures it has had: a node does not handle events that it read before one.
    erasures      integer     not null default 0,
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

-- Outbox: committed events that have no position yet. Publishers insert, the sequencer deletes. It consists of three plain tables that take
-- turns: everybody writes to one of them for 4 seconds, see headrace.outbox_slot, and the others rest and are truncated once they
-- are empty, see headrace_internal.trim_outbox. A snapshot held anywhere in the cluster therefore cannot bloat the outbox. They inherit from
-- headrace_internal.outbox, through which they are read, updated and deleted from as one table; it has no rows itself. An INSERT names its
-- table: routing to a partition costs 10 µs of about 80, and a statement that could choose would lock all three of them, so that none could
-- ever be truncated. See docs/adr/0095. No constraints except not null: PostgreSQL parses a constraint's expression again for every statement
-- (14 µs measured), so publishing checks an event before, and nobody but the owner may insert. Each table has its own index outbox_<slot>_order,
-- called outbox_order elsewhere. It is unique so that it can be the replica identity: without one, a publication of all tables stops the
-- sequencer; with `full`, wal_level = logical writes every event once more. PostgreSQL asks the same of the parent.
create sequence headrace_internal.outbox_id_seq as bigint;

create table headrace_internal.outbox (
    -- Assigned in order, committed out of order: it orders the events of one producer, and must never be a cursor.
    id         bigint      not null default nextval('headrace_internal.outbox_id_seq'),
    emitted_at timestamptz not null default headrace.clock(),
    topic_id   integer     not null,
    event_id   uuid        not null default headrace.uuid_v7(),
    type       text        not null,
    key        text,
    payload    jsonb       not null,
    headers    jsonb       not null default '{}',
    producer   text,
    constraint outbox_has_no_rows_itself check (false) no inherit
);
create unique index outbox_order on headrace_internal.outbox (topic_id, id);
alter table headrace_internal.outbox replica identity using index outbox_order;

do $$
begin
    for v_slot in 0 .. 2 loop
        execute format('create table headrace_internal.outbox_%1$s () inherits (headrace_internal.outbox)', v_slot);
        execute format('create unique index outbox_%1$s_order on headrace_internal.outbox_%1$s (topic_id, id)', v_slot);
        execute format('alter table headrace_internal.outbox_%1$s replica identity using index outbox_%1$s_order', v_slot);
    end loop;
end
$$;

-- When headrace_internal.trim_outbox found a table of the outbox empty, and how many rows had been deleted from it then: it rests from
-- that moment, and again when there are more.
create table headrace_internal.outbox_rest (
    slot         smallint    not null,
    empty_since  timestamptz not null,
    rows_deleted bigint      not null,
    constraint outbox_rest_pkey primary key (slot)
);

-- Captures: the tables whose changes become events of a topic. headrace_internal.capture writes them, headrace.publish_rows reads them.
create table headrace_internal.capture (
    captured    regclass    not null,
    topic_id    integer     not null,
    -- The columns whose values form the key; empty for events without a key.
    key_columns text[]      not null,
    -- The column that holds the event's type; null: the type depends on the operation.
    type_column text,
    insert_type text,
    update_type text,
    delete_type text,
    -- The columns of the payload; null: all columns.
    columns     text[],
    created_at  timestamptz not null default headrace.clock(),
    constraint capture_pkey primary key (captured, topic_id),
    constraint capture_topic_exists foreign key (topic_id) references headrace_internal.topic (topic_id) on delete cascade
);

-- The log: every event at its position. One branch per topic (headrace_internal.log_<topic_id>), each partitioned by time.
-- Only the sequencer writes it; rows are never updated, except by an erasure. Time partitions have `replica identity full`, which costs
-- something only then; see headrace_internal.extend_log.
create table headrace_internal.log (
    position    bigint      not null,
    appended_at timestamptz not null,
    emitted_at  timestamptz not null,
    topic_id    integer     not null,
    partition   integer     not null,
    event_id    uuid        not null,
    type        text        not null,
    key         text,
    payload     jsonb       not null,
    headers     jsonb       not null,
    producer    text
) partition by list (topic_id);

-- An event as functions return it: its topic, and the columns of the log in their order, so that `l.*` of a log fills it. A new column of
-- events comes last in the outbox, the log and here: see docs/internals/recipes/event-column.md.
create type headrace.logged_event as (
    topic       text,
    position    bigint,
    appended_at timestamptz,
    emitted_at  timestamptz,
    topic_id    integer,
    partition   integer,
    event_id    uuid,
    type        text,
    key         text,
    payload     jsonb,
    headers     jsonb,
    producer    text
);

-- Order over the whole topic; its end is the head of the log.
create index log_position on headrace_internal.log (position);

-- Order within a partition, for consumers.
create index log_partition on headrace_internal.log (partition, position);

-- The sequencer uses it to drop an event id published twice, and trace to find an event.
create index log_event_id on headrace_internal.log (event_id);

-- What one step of the sequencer did to one topic, with the events if they are handed over.
create type headrace_internal.topic_move as (
    topic          headrace_internal.topic,
    first_position bigint,
    events         integer,
    duplicates     integer,
    rows           headrace_internal.log[]
);

-- The epochs that nodes have seen, in order. A new one means that the server was failed over or restored, and that the logs may have
-- lost their newest events: what was read from the old server at the same positions may differ.
create table headrace_internal.log_epoch (
    number  integer     not null generated always as identity,
    epoch   text        not null,
    seen_at timestamptz not null default headrace.clock(),
    constraint log_epoch_pkey primary key (number),
    constraint log_epoch_once unique (epoch)
);

-- Erasures: who erased the events of a key, when and how many rows; never the key itself or anything of its data.
create table headrace_internal.erasure (
    erasure_id bigint      not null generated always as identity,
    namespace  text        not null,
    topic      text        not null,
    -- The fields that were redacted; null: whole payloads were erased.
    fields     text[],
    -- What the events have instead of their key; null: they keep it.
    new_key    text,
    erased_by  text        not null,
    erased_at  timestamptz not null default headrace.clock(),
    -- The number of rows by place: {"log": 3, "dead letters": 1}.
    row_counts jsonb       not null default '{}',
    -- Tables that still hold the old versions of the rows: VACUUM removes them.
    tables     text[]      not null default '{}',
    constraint erasure_pkey primary key (erasure_id),
    constraint erasure_namespace_exists foreign key (namespace) references headrace_internal.namespace (namespace) on delete cascade
);

-- Erased events that may still be in files of the archive. The row goes away when the files have been written again.
create table headrace_internal.erasure_pending (
    erasure_id bigint      not null,
    topic_id   integer     not null,
    event_ids  uuid[]      not null,
    -- These are outputs of a correlator, which quote an event.
    outputs    boolean     not null,
    constraint erasure_pending_pkey primary key (erasure_id, topic_id),
    constraint erasure_pending_erasure_exists foreign key (erasure_id) references headrace_internal.erasure (erasure_id) on delete cascade,
    constraint erasure_pending_topic_exists foreign key (topic_id) references headrace_internal.topic (topic_id) on delete cascade
);
create index erasure_pending_topic on headrace_internal.erasure_pending (topic_id);
