-- The registered event types and actions of a namespace. headrace_internal.namespace.unknown_names says what happens to other names.
create table headrace_internal.event_type (
    namespace   text        not null default headrace.current_namespace(),
    event_type  text        not null,
    description text,
    created_at  timestamptz not null default headrace.clock(),
    constraint event_type_pkey primary key (namespace, event_type),
    constraint event_type_namespace_exists foreign key (namespace) references headrace_internal.namespace (namespace) on delete cascade,
    constraint event_type_name_rule check (event_type ~ '^[A-Za-z_][A-Za-z0-9_.:/-]*( [A-Za-z0-9_.:/-]+)*$' and length(event_type) <= 200)
);

create table headrace_internal.action (
    namespace   text        not null default headrace.current_namespace(),
    action      text        not null,
    description text,
    created_at  timestamptz not null default headrace.clock(),
    constraint action_pkey primary key (namespace, action),
    constraint action_namespace_exists foreign key (namespace) references headrace_internal.namespace (namespace) on delete cascade,
    constraint action_name_rule check (action ~ '^[A-Za-z_][A-Za-z0-9_.:/-]{0,199}$')
);
