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
