-- Who calls a function of ours. Public functions run with the owner's rights, so inside them current_user is the owner. Their last
-- parameter, p_caller, has this type and the default current_user, which PostgreSQL evaluates before the call, as the caller.
-- The check makes it impossible to name anybody else. session_user would not do: in an index expression that autovacuum evaluates
-- it is a superuser, and the role that wrote the expression would act as one.
create domain headrace_internal.caller as name not null constraint caller_is_current_user check (value = current_user);

-- Namespaces: logical isolation. Every topic belongs to one; 'default' always exists.
create table headrace_internal.namespace (
    namespace  text        not null,
    -- Part of names that the catalog shows to everybody.
    namespace_id integer   not null generated always as identity,
    created_at timestamptz not null default headrace.clock(),
    -- What happens to a rule whose event type or action is not registered: 'refuse', 'warn' or 'allow'.
    unknown_names text     not null default 'warn',
    constraint namespace_pkey primary key (namespace),
    constraint namespace_id_unique unique (namespace_id),
    constraint namespace_name_rule check (namespace ~ '^[a-z][a-z0-9_]{0,39}$'),
    constraint namespace_unknown_names_known check (unknown_names in ('refuse', 'warn', 'allow'))
);

insert into headrace_internal.namespace (namespace) values ('default');

-- Locks of headrace itself. Rows of a closed table and not advisory locks: anybody may hold an advisory lock, and so stop others.
create table headrace_internal.lock (
    name    text    not null,
    -- The session that holds it, for locks that outlive a transaction: process id and role. Such a lock ends with its session.
    pid     integer,
    role    name,
    constraint lock_pkey primary key (name)
);

-- The levels of roles in namespaces: 'publish'; 'consume'; 'work', which includes consume; 'admin', which includes all.
-- headrace_internal.level_includes says so to functions and views.
create table headrace_internal.namespace_grant (
    role       regrole     not null,
    namespace  text        not null,
    level      text        not null,
    granted_at timestamptz not null default headrace.clock(),
    constraint namespace_grant_pkey primary key (role, namespace, level),
    constraint namespace_grant_namespace_exists foreign key (namespace)
        references headrace_internal.namespace (namespace) on delete cascade,
    constraint namespace_grant_level_known check (level in ('publish', 'consume', 'work', 'admin'))
);

-- Who may publish in a namespace.
create index namespace_grant_namespace on headrace_internal.namespace_grant (namespace, level);

-- Roles of nodes: they run the loops of every namespace. See headrace.grant_node.
create table headrace_internal.node_role (
    role       regrole     not null,
    granted_at timestamptz not null default headrace.clock(),
    constraint node_role_pkey primary key (role)
);

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
