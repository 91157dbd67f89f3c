-- Namespaces: logical isolation. Every topic belongs to one; 'default' is always there.
create table headrace.namespace (
    namespace  text        not null,
    created_at timestamptz not null default headrace.clock(),
    constraint namespace_pkey primary key (namespace),
    constraint namespace_name_rule check (namespace ~ '^[a-z][a-z0-9_]{0,39}$')
);
insert into headrace.namespace (namespace) values ('default');
