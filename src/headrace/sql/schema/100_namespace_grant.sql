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
