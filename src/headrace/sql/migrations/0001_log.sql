-- Namespaces: logical isolation. Every topic belongs to one; 'default' is always there.
create table headrace.namespace (
    namespace  text        not null,
    created_at timestamptz not null default headrace.clock(),
    constraint namespace_pkey primary key (namespace),
    constraint namespace_name_rule check (namespace ~ '^[a-z][a-z0-9_]{0,39}$')
);
insert into headrace.namespace (namespace) values ('default');
-- Topics: a named log with partitions. Publishers read this row without locking it;
-- the row lock (no key update) is the right to write the topic's log, held by one sequencer at a time.
create table headrace.topic (
    topic_id      integer     not null generated always as identity,
    namespace     text        not null default 'default',
    topic         text        not null,
    partitions    integer     not null default 1,
    -- Width of one time partition of the log.
    time_partition text       not null default 'month',
    -- Null keeps the log for ever.
    retention     interval,
    -- Positions up to and including this one have been dropped; the log starts after it.
    dropped_to    bigint      not null default 0,
    -- The time partitions reach up to here; the sequencer adds more before it writes past it.
    log_until     timestamptz not null default '-infinity',
    -- No sequencer looks at this topic right now: a publisher has to send a NOTIFY at commit. Otherwise it must not.
    asleep        boolean     not null default true,
    created_at    timestamptz not null default headrace.clock(),
    constraint topic_pkey primary key (topic_id),
    constraint topic_name_unique unique (namespace, topic),
    constraint topic_namespace_exists foreign key (namespace) references headrace.namespace (namespace),
    constraint topic_name_rule check (topic ~ '^[a-z][a-z0-9_.-]{0,99}$'),
    constraint topic_partitions_1_to_1024 check (partitions between 1 and 1024),
    constraint topic_time_partition_known check (time_partition in ('day', 'week', 'month')),
    constraint topic_retention_positive check (retention > interval '0')
) with (fillfactor = 50);

-- How many partitions a topic had from which position on. A consumer passes a border only when every
-- partition has come up to it, so that a key which changes partition keeps its order.
create table headrace.topic_border (
    topic_id   integer not null,
    position   bigint  not null,
    partitions integer not null,
    constraint topic_border_pkey primary key (topic_id, position),
    constraint topic_border_topic_exists foreign key (topic_id) references headrace.topic (topic_id) on delete cascade
);
-- Outbox: committed events that have no position yet. Publishers insert, the sequencer deletes.
-- Partitioned by a slot of the clock: rows go to the slot of the current 8 seconds, so a slot that is over
-- can be truncated once it is drained. A held snapshot somewhere in the cluster therefore cannot bloat it.
-- No constraint beside not null: PostgreSQL reads a constraint's expression anew for every statement (14 µs measured),
-- so headrace.publish and the library check an event before it comes here, and only they are granted insert.
create sequence headrace.outbox_id_seq as bigint;

create table headrace.outbox (
    -- Taken in order, committed out of order: an order among the events of one producer, never a cursor.
    id         bigint      not null default nextval('headrace.outbox_id_seq'),
    emitted_at timestamptz not null default headrace.clock(),
    topic_id   integer     not null,
    slot       smallint    not null default headrace.outbox_slot(),
    event_id   uuid        not null default headrace.uuid_v7(),
    type       text        not null,
    key        text,
    payload    jsonb       not null,
    headers    jsonb       not null default '{}',
    producer   text
) partition by list (slot);

create index outbox_order on headrace.outbox (topic_id, id);

create table headrace.outbox_0 partition of headrace.outbox for values in (0);
create table headrace.outbox_1 partition of headrace.outbox for values in (1);
create table headrace.outbox_2 partition of headrace.outbox for values in (2);
create table headrace.outbox_3 partition of headrace.outbox for values in (3);
create table headrace.outbox_4 partition of headrace.outbox for values in (4);
create table headrace.outbox_5 partition of headrace.outbox for values in (5);
create table headrace.outbox_6 partition of headrace.outbox for values in (6);
create table headrace.outbox_7 partition of headrace.outbox for values in (7);
-- Captures: which table's changes become events of which topic. Written by headrace.capture, read by its triggers.
create table headrace.capture (
    captured    regclass    not null,
    topic_id    integer     not null,
    -- The columns whose values make the key; none for events without one.
    key_columns text[]      not null,
    -- The column that holds the event's type; when null, the type is given per operation.
    type_column text,
    insert_type text,
    update_type text,
    delete_type text,
    -- The columns that go into the payload; null for all of them.
    columns     text[],
    created_at  timestamptz not null default headrace.clock(),
    constraint capture_pkey primary key (captured, topic_id),
    constraint capture_topic_exists foreign key (topic_id) references headrace.topic (topic_id) on delete cascade
);
-- The log: every event at its position. One branch per topic (headrace.log_<topic_id>), each cut by time.
-- Written by the sequencer alone, never updated.
create table headrace.log (
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

-- Order over the whole topic; its far end is the head of the log.
create index log_position on headrace.log (position);
-- Order within a partition, for consumers.
create index log_partition on headrace.log (partition, position);
-- The same event id twice is one event; and trace.
create index log_event_id on headrace.log (event_id);
-- Consumers and their cursors.
create table headrace.consumer (
    consumer_id   integer     not null generated always as identity,
    topic_id      integer     not null,
    consumer      text        not null,
    -- 'partition': one cursor per partition, worked on side by side. 'topic': one cursor over all of it.
    ordered_by    text        not null default 'partition',
    -- Failure policy: how often an event is tried (null: for ever), how long between, and what then.
    attempts_max  integer,
    backoff_s     double precision not null default 1,
    backoff_max_s double precision not null default 300,
    when_exhausted text       not null default 'stop',
    -- Where a failed event was put aside: do later events of its key wait behind it, or go on?
    key_order     text        not null default 'hold',
    created_at    timestamptz not null default headrace.clock(),
    constraint consumer_pkey primary key (consumer_id),
    constraint consumer_name_unique unique (topic_id, consumer),
    constraint consumer_topic_exists foreign key (topic_id) references headrace.topic (topic_id) on delete cascade,
    constraint consumer_name_rule check (consumer ~ '^[a-z][a-z0-9_.-]{0,99}$'),
    constraint consumer_ordered_by_known check (ordered_by in ('partition', 'topic')),
    constraint consumer_attempts_positive check (attempts_max > 0),
    constraint consumer_backoff_positive check (backoff_s > 0 and backoff_max_s >= backoff_s),
    constraint consumer_when_exhausted_known check (when_exhausted in ('stop', 'dead_letter')),
    constraint consumer_key_order_known check (key_order in ('hold', 'skip'))
);

-- How far a consumer has come. The row lock is the right to handle the partition; it ends with the
-- transaction, so a dead process holds nothing. Partition -1: the one cursor over the whole topic.
create table headrace.cursor (
    consumer_id integer     not null,
    partition   integer     not null,
    position    bigint      not null,
    state       text        not null default 'running',
    -- Of the event right after the position.
    attempts    integer     not null default 0,
    retry_at    timestamptz,
    error       text,
    -- After a failed batch: up to here events are handled one by one, to find the one at fault.
    single_to   bigint      not null default 0,
    moved_at    timestamptz not null default headrace.clock(),
    constraint cursor_pkey primary key (consumer_id, partition),
    constraint cursor_consumer_exists foreign key (consumer_id) references headrace.consumer (consumer_id) on delete cascade,
    constraint cursor_state_known check (state in ('running', 'stopped'))
) with (fillfactor = 50);

-- Events a consumer could not handle ('dead'), and later events of the same key that wait behind them ('behind').
create table headrace.dead_letter (
    dead_letter_id bigint   not null generated always as identity,
    consumer_id integer     not null,
    partition   integer     not null,
    position    bigint      not null,
    event_id    uuid        not null,
    type        text        not null,
    key         text,
    payload     jsonb       not null,
    headers     jsonb       not null,
    state       text        not null,
    reason      text        not null,
    error       text,
    attempts    integer     not null,
    buried_at   timestamptz not null default headrace.clock(),
    ended_at    timestamptz,
    constraint dead_letter_pkey primary key (dead_letter_id),
    constraint dead_letter_once unique (consumer_id, position),
    constraint dead_letter_consumer_exists foreign key (consumer_id) references headrace.consumer (consumer_id) on delete cascade,
    constraint dead_letter_state_known check (state in ('dead', 'behind', 'redrive', 'redriven', 'discarded'))
);
-- Which keys are held back: looked at for every batch.
create index dead_letter_held on headrace.dead_letter (consumer_id, key) where state in ('dead', 'behind', 'redrive');
-- What waits to be handled again, in order.
create index dead_letter_redrive on headrace.dead_letter (consumer_id, partition, position) where state = 'redrive';
-- How far every consumer is behind, per partition: in events and in seconds (the age of the oldest event not handled).
-- Indexes: log_partition, log_position.
create view headrace.consumer_lag as
select t.namespace, t.topic, c.consumer, u.partition, u.position, u.state, u.attempts, u.retry_at, u.error,
    behind.events as lag_events,
    coalesce(greatest(extract(epoch from headrace.clock() - behind.oldest_at), 0), 0)::double precision as lag_s
from headrace.consumer c
join headrace.topic t on t.topic_id = c.topic_id
join headrace.cursor u on u.consumer_id = c.consumer_id
cross join lateral (
    select count(*) as events, min(l.appended_at) as oldest_at
    from headrace.log l
    where l.topic_id = t.topic_id and l.position > u.position and (u.partition = -1 or l.partition = u.partition)
) behind;
