-- The levels of roles in namespaces: 'publish', 'consume', or 'admin', which includes both and everything else.
-- The policies of all other tables use this one; a role sees only its own rows here.
create table headrace.namespace_grant (
    role       regrole     not null,
    namespace  text        not null,
    level      text        not null,
    granted_at timestamptz not null default headrace.clock(),
    constraint namespace_grant_pkey primary key (role, namespace, level),
    constraint namespace_grant_namespace_exists foreign key (namespace)
        references headrace.namespace (namespace) on delete cascade,
    constraint namespace_grant_level_known check (level in ('publish', 'consume', 'admin'))
);
