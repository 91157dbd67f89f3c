-- Failures of the nodes' loops, one row per thing that fails: a topic, a schedule, a rule set, a correlator, a queue. The others go
-- on; this one is tried again at retry_at. The row goes away with the first success.
-- No foreign key: a failure can be recorded about something that is being dropped. headrace.maintain_log deletes old rows.
create table headrace_internal.failure (
    -- What failed, for example 'sequence' or 'schedule'.
    kind      text        not null,
    -- Empty for a failure that concerns no single namespace.
    namespace text        not null,
    -- The topic, schedule or other object.
    name      text        not null,
    error     text        not null,
    -- Failures in a row.
    failures  bigint      not null default 1,
    first_at  timestamptz not null default headrace.clock(),
    last_at   timestamptz not null default headrace.clock(),
    retry_at  timestamptz not null,
    constraint failure_pkey primary key (kind, namespace, name)
) with (fillfactor = 50);
