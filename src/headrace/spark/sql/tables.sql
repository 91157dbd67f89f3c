-- Committed batches of Spark queries. The row commits together with the batch, so a batch that Spark repeats
-- after a crash is recognized and written once.
create table headrace_internal.spark_batch (
    namespace    text        not null,
    -- The query's id in its checkpoint, or the name of a single write.
    query        text        not null,
    batch        bigint      not null,
    rows         bigint      not null,
    committed_at timestamptz not null default headrace.clock(),
    constraint spark_batch_pkey primary key (namespace, query, batch),
    constraint spark_batch_namespace_exists foreign key (namespace) references headrace_internal.namespace (namespace) on delete cascade
);

-- Rows that Spark's tasks have written and the driver has not committed yet. Unlogged: a crash of the server empties it, the
-- commit then finds too few rows and fails, and Spark repeats the batch.
create unlogged table headrace_internal.spark_stage (
    namespace  text        not null,
    query      text        not null,
    batch      bigint      not null,
    -- One attempt of one task.
    token      uuid        not null,
    place      bigint      not null,
    -- Null for an action.
    topic      text,
    -- The action's name, for an action.
    type       text        not null,
    key        text,
    payload    jsonb       not null,
    headers    jsonb       not null,
    event_id   uuid        not null,
    emitted_at timestamptz,
    producer   text,
    priority   integer     not null,
    staged_at  timestamptz not null default headrace.clock()
);

-- The rows of a batch, in the order of the frame.
create index spark_stage_order on headrace_internal.spark_stage (namespace, query, batch, token, place);

-- Pipelines: the process that runs the rules and correlators of a topic on Spark, and its totals. One row per topic that ever had one.
create table headrace_internal.pipeline (
    topic_id     integer     not null,
    -- One run of one process.
    run_id       uuid        not null,
    process      text        not null,
    master       text        not null,
    started_at   timestamptz not null default headrace.clock(),
    heartbeat_at timestamptz not null default headrace.clock(),
    stopped_at   timestamptz,
    -- It counts all runs together; the batches are numbered by the first of them.
    batches      bigint      not null default 0,
    events       bigint      not null default 0,
    firings      bigint      not null default 0,
    outputs      bigint      not null default 0,
    -- The error of the last attempt; null if it succeeded.
    error        text,
    constraint pipeline_pkey primary key (topic_id),
    constraint pipeline_topic_exists foreign key (topic_id) references headrace_internal.topic (topic_id) on delete cascade
) with (fillfactor = 50);

-- The ledger: one row per batch, committed together with the batch. The last thousand of a topic are kept.
create table headrace_internal.pipeline_batch (
    topic_id      integer     not null,
    batch         bigint      not null,
    run_id        uuid        not null,
    -- The events after the first of these positions, up to the second.
    from_position bigint      not null,
    upto          bigint      not null,
    firings       bigint      not null,
    outputs       bigint      not null,
    -- Keys whose timers fired.
    timers        bigint      not null,
    -- It is measured from reading the cursors until just before the commit.
    took_ms       double precision not null,
    committed_at  timestamptz not null default headrace.clock(),
    constraint pipeline_batch_pkey primary key (topic_id, batch),
    constraint pipeline_batch_pipeline_exists foreign key (topic_id) references headrace_internal.pipeline (topic_id) on delete cascade
);

-- Streams: correlators over a streaming frame of Spark. A row has where the stream is; it moves in the transaction of each micro-batch.
create table headrace_internal.stream (
    stream_id    bigint      not null generated always as identity,
    namespace    text        not null,
    stream       text        not null,
    -- Its correlators as JSON: states are of these patterns only.
    correlators  text        not null,
    -- The one log that it reads.
    shard        text,
    topic        text,
    -- The last handled position, and the time up to which timers have fired.
    position     bigint      not null default 0,
    passed_at    timestamptz,
    batches      bigint      not null default 0,
    outputs      bigint      not null default 0,
    committed_at timestamptz,
    constraint stream_pkey primary key (stream_id),
    constraint stream_name_unique unique (namespace, stream),
    constraint stream_namespace_exists foreign key (namespace) references headrace_internal.namespace (namespace) on delete cascade
) with (fillfactor = 50);

-- The state of a key in one correlator of a stream.
create table headrace_internal.stream_state (
    stream_id  bigint  not null,
    correlator integer not null,
    key        text    collate "C" not null,
    -- Microseconds since 1970: when its next timer is due.
    deadline   bigint,
    -- JSON that only the engine reads. One column: a row is written in half the time that eight take.
    state      text    not null,
    constraint stream_state_pkey primary key (stream_id, correlator, key),
    constraint stream_state_stream_exists foreign key (stream_id) references headrace_internal.stream (stream_id) on delete cascade
) with (fillfactor = 70);
create index stream_state_due on headrace_internal.stream_state (stream_id, correlator, deadline) where deadline is not null;

-- The outputs of streams.
create table headrace_internal.stream_output (
    stream_id      bigint      not null,
    correlator     text        not null,
    version        integer     not null,
    key            text        collate "C" not null,
    token          text        not null,
    -- Null for an output of a timer.
    position       bigint,
    output_at      timestamptz not null,
    -- Its place among the outputs of that event or deadline, from 1.
    place          integer     not null,
    evidence       bigint[]    not null,
    evidence_total bigint      not null,
    captured       jsonb,
    written_at     timestamptz not null default headrace.clock(),
    -- Exactly once.
    constraint stream_output_once unique nulls not distinct (stream_id, correlator, version, key, position, output_at, place),
    constraint stream_output_stream_exists foreign key (stream_id) references headrace_internal.stream (stream_id) on delete cascade
);

-- The unique index cannot be the replica identity, because a position may be null.
alter table headrace_internal.stream_output replica identity full;
