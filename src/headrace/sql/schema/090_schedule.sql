-- Schedules: a cron expression in a time zone, and the event to emit at every tick.
-- The expression is evaluated by the library alone; it writes the coming ticks into schedule_due, and SQL fires those.
create table headrace.schedule (
    schedule_id   integer     not null generated always as identity,
    -- What the ids of its events are made of: no other schedule, in no other database, makes the same ones.
    uid           uuid        not null default headrace.uuid_v7(),
    namespace     text        not null default 'default',
    schedule      text        not null,
    cron          text        not null,
    zone          text        not null default 'UTC',
    topic_id      integer     not null,
    type          text        not null,
    payload       jsonb       not null default '{}',
    key           text,
    headers       jsonb       not null default '{}',
    active        boolean     not null default true,
    -- What becomes of ticks that nobody fired within grace_s: none, the newest one, or the newest missed_max of them.
    missed        text        not null default 'skip',
    missed_max    integer     not null default 100,
    grace_s       double precision not null default 120,
    -- Ticks up to here are in schedule_due or done; the rest is not computed yet.
    planned_until timestamptz not null default headrace.clock(),
    -- When the plan is to be made longer; infinity for an expression that cannot be planned (see error).
    replan_at     timestamptz not null default '-infinity',
    -- pg_cron fires it; a node stands by.
    cron_job_id   bigint,
    -- Of the last time it could not be fired or planned.
    error         text,
    attempts      integer     not null default 0,
    retry_at      timestamptz,
    created_at    timestamptz not null default headrace.clock(),
    constraint schedule_pkey primary key (schedule_id),
    constraint schedule_name_unique unique (namespace, schedule),
    constraint schedule_namespace_exists foreign key (namespace) references headrace.namespace (namespace),
    constraint schedule_topic_exists foreign key (topic_id) references headrace.topic (topic_id),
    constraint schedule_name_rule check (schedule ~ '^[a-z][a-z0-9_.-]{0,99}$'),
    constraint schedule_missed_known check (missed in ('skip', 'one', 'all')),
    constraint schedule_missed_max_1_to_1000 check (missed_max between 1 and 1000),
    constraint schedule_grace_s_1_to_86400 check (grace_s between 1 and 86400)
);

-- Ticks to come, computed ahead.
create table headrace_internal.schedule_due (
    schedule_id integer     not null,
    tick_at     timestamptz not null,
    constraint schedule_due_pkey primary key (schedule_id, tick_at),
    constraint schedule_due_schedule_exists foreign key (schedule_id)
        references headrace.schedule (schedule_id) on delete cascade
);

-- The next tick of all schedules.
create index schedule_due_next on headrace_internal.schedule_due (tick_at);

-- Ticks that are over: what became of them. One row per tick, written in the transaction that publishes its event.
create table headrace_internal.schedule_tick (
    schedule_id integer     not null,
    tick_at     timestamptz not null,
    outcome     text        not null,
    event_id    uuid,
    fired_at    timestamptz not null default headrace.clock(),
    constraint schedule_tick_once primary key (schedule_id, tick_at),
    constraint schedule_tick_schedule_exists foreign key (schedule_id)
        references headrace.schedule (schedule_id) on delete cascade,
    constraint schedule_tick_outcome_known check (outcome in ('fired', 'skipped', 'manual')),
    constraint schedule_tick_has_its_event check ((event_id is null) = (outcome = 'skipped'))
);
