-- Which role may do what in which namespace: 'publish', 'consume', or 'admin', which is both and all else.
-- The policies of every other table stand on this one; a role sees its own rows here and nobody else's.
create table headrace_internal.namespace_grant (
    role       regrole     not null,
    namespace  text        not null,
    level      text        not null,
    granted_at timestamptz not null default headrace.clock(),
    constraint namespace_grant_pkey primary key (role, namespace, level),
    constraint namespace_grant_namespace_exists foreign key (namespace)
        references headrace.namespace (namespace) on delete cascade,
    constraint namespace_grant_level_known check (level in ('publish', 'consume', 'admin'))
);
