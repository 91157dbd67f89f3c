-- Streams: correlators over a streaming frame of Spark. A row has where the stream is; it moves in the transaction of each micro-batch.
create table headrace_internal.stream (
    stream_id    integer     not null generated always as identity,
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
    stream_id  integer not null,
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
    stream_id      integer     not null,
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
