-- Schedules: a cron expression in a time zone, and the event to emit at every tick.
-- Only the library evaluates the expression; it writes the coming ticks into schedule_due, and SQL fires them.
create table headrace_internal.schedule (
    schedule_id   bigint      not null generated always as identity,
    -- The ids of its events derive from it: no schedule of another database produces the same ids.
    uid           uuid        not null default headrace.uuid_v7(),
    namespace     text        not null default 'default',
    schedule      text        not null,
    cron          text        not null,
    zone          text        not null default 'UTC',
    topic         text        not null,
    -- Filled in by the trigger.
    topic_id      integer     not null,
    type          text        not null,
    payload       jsonb       not null default '{}',
    key           text,
    headers       jsonb       not null default '{}',
    active        boolean     not null default true,
    -- Who manages it: 'sql', 'app', or the file it is kept in. A file's plan drops only what came from it.
    source        text        not null default 'sql',
    -- Which ticks later than grace_s are still fired: none, the newest one, or the newest missed_max.
    missed        text        not null default 'skip',
    missed_max    integer     not null default 100,
    grace_s       double precision not null default 120,
    -- Ticks up to here are in schedule_due or done; the rest is not computed yet.
    planned_until timestamptz not null default headrace.clock(),
    -- When the plan must be extended; infinity for an expression that cannot be planned (see error).
    replan_at     timestamptz not null default '-infinity',
    -- The pg_cron job that fires it; a node fires it if the job does not.
    cron_job_id   bigint,
    -- The error of the last time it could not be fired or planned.
    error         text,
    attempts      integer     not null default 0,
    retry_at      timestamptz,
    created_at    timestamptz not null default headrace.clock(),
    constraint schedule_pkey primary key (schedule_id),
    constraint schedule_name_unique unique (namespace, schedule),
    constraint schedule_namespace_exists foreign key (namespace) references headrace_internal.namespace (namespace),
    constraint schedule_topic_exists foreign key (topic_id) references headrace_internal.topic (topic_id),
    constraint schedule_name_rule check (schedule ~ '^[a-z][a-z0-9_.-]{0,99}$'),
    constraint schedule_missed_known check (missed in ('skip', 'one', 'all')),
    constraint schedule_missed_max_1_to_1000 check (missed_max between 1 and 1000),
    constraint schedule_grace_s_1_to_86400 check (grace_s between 1 and 86400)
);

-- Coming ticks, computed ahead.
create table headrace_internal.schedule_due (
    schedule_id bigint      not null,
    tick_at     timestamptz not null,
    constraint schedule_due_pkey primary key (schedule_id, tick_at),
    constraint schedule_due_schedule_exists foreign key (schedule_id)
        references headrace_internal.schedule (schedule_id) on delete cascade
);

-- The next tick of all schedules.
create index schedule_due_next on headrace_internal.schedule_due (tick_at);

-- Past ticks and their outcome. One row per tick, written in the transaction that publishes its event.
create table headrace_internal.schedule_tick (
    schedule_id bigint      not null,
    tick_at     timestamptz not null,
    outcome     text        not null,
    event_id    uuid,
    fired_at    timestamptz not null default headrace.clock(),
    constraint schedule_tick_once primary key (schedule_id, tick_at),
    constraint schedule_tick_schedule_exists foreign key (schedule_id)
        references headrace_internal.schedule (schedule_id) on delete cascade,
    constraint schedule_tick_outcome_known check (outcome in ('fired', 'skipped', 'manual')),
    constraint schedule_tick_has_its_event check ((event_id is null) = (outcome = 'skipped'))
);
