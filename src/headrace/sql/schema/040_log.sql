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

-- Order over the whole topic; its end is the head of the log.
create index log_position on headrace_internal.log (position);

-- Order within a partition, for consumers.
create index log_partition on headrace_internal.log (partition, position);

-- To drop an event id published twice, and for trace.
create index log_event_id on headrace_internal.log (event_id);

-- What one step of the sequencer did to one topic.
create type headrace_internal.topic_move as (
    topic_id       integer,
    first_position bigint,
    events         integer,
    duplicates     integer
);
