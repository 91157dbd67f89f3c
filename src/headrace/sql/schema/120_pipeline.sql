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
    -- Of all runs together; the batches are numbered by the first of them.
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
    -- From reading the cursors until just before the commit.
    took_ms       double precision not null,
    committed_at  timestamptz not null default headrace.clock(),
    constraint pipeline_batch_pkey primary key (topic_id, batch),
    constraint pipeline_batch_pipeline_exists foreign key (topic_id) references headrace_internal.pipeline (topic_id) on delete cascade
);
