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
