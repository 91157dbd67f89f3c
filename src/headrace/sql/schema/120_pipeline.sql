-- Pipelines: who runs the rules and correlators of a topic on Spark, and what came of it so far. One row per topic that ever had one.
create table headrace.pipeline (
    topic_id     integer     not null,
    -- One turn of one process.
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
    -- What the last attempt failed with; null after one that did not.
    error        text,
    constraint pipeline_pkey primary key (topic_id),
    constraint pipeline_topic_exists foreign key (topic_id) references headrace.topic (topic_id) on delete cascade
) with (fillfactor = 50);

-- The ledger: a row per batch, which commits with all that the batch did. The last thousand of a topic are kept.
create table headrace.pipeline_batch (
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
    -- From the look at the cursors until all but the commit itself was done.
    took_ms       double precision not null,
    committed_at  timestamptz not null default headrace.clock(),
    constraint pipeline_batch_pkey primary key (topic_id, batch),
    constraint pipeline_batch_pipeline_exists foreign key (topic_id) references headrace.pipeline (topic_id) on delete cascade
);

-- Pipelines with their progress: rate and batch time over the last twenty batches, lag of the slowest of the topic's own consumers.
-- Indexes: pipeline_batch_pkey, cursor_pkey, log_position.
create view headrace.pipeline_state as
select t.namespace, t.topic, t.engine, p.process, p.master,
    case when p.stopped_at is not null then 'stopped'
        when p.heartbeat_at < headrace.clock() - interval '30 seconds' then 'lost' else 'running' end as state,
    p.started_at, p.heartbeat_at, p.batches, p.events, p.firings, p.outputs, u.position,
    greatest(coalesce(h.position, t.dropped_to) - u.position, 0) as lag_events,
    coalesce(greatest(extract(epoch from headrace.clock() - o.appended_at), 0), 0)::double precision as lag_s,
    b.rate, b.batch_ms, p.error
from headrace.pipeline p
join headrace.topic t on t.topic_id = p.topic_id
left join lateral (
    select l.position from headrace.log l where l.topic_id = t.topic_id order by l.position desc limit 1
) h on true
left join lateral (
    select min(u.position) as position
    from headrace.consumer c join headrace.cursor u on u.consumer_id = c.consumer_id
    where c.topic_id = t.topic_id and starts_with(c.consumer, 'headrace.')
) u on true
left join lateral (
    select l.appended_at from headrace.log l
    where l.topic_id = t.topic_id and l.position > u.position order by l.position limit 1
) o on true
left join lateral (
    select avg(b.took_ms) as batch_ms, (sum(b.upto - b.from_position) / nullif(extract(epoch from
        max(b.committed_at) - min(b.committed_at - b.took_ms * interval '1 millisecond')), 0))::double precision as rate
    from (
        select b.upto, b.from_position, b.took_ms, b.committed_at from headrace.pipeline_batch b
        where b.topic_id = p.topic_id order by b.batch desc limit 20
    ) b
) b on true;
