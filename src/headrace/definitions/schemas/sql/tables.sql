-- The current JSON Schema of an event type, how new versions must relate to it, and what happens to a payload that breaks it.
-- The check of payloads is a jsonpath, printed from our own tree: it is data, and no role can read it, as it could a function.
create table headrace_internal.event_schema (
    namespace     text        not null,
    event_type    text        not null,
    version       integer     not null,
    -- json and not jsonb: it keeps the author's order, which generated classes follow.
    schema        json        not null,
    compatibility text        not null default 'backward',
    -- 'off', 'warn' (a warning for the publisher) or 'reject' (an error).
    validation    text        not null default 'off',
    -- True for a payload that keeps the schema. Null: written without the library, which prints it.
    check_path    jsonpath,
    -- False: the schema has parts that the check leaves out, since they have no exact form in SQL.
    check_is_complete boolean,
    -- The check rule by rule, to name the broken one: [{"path": "/total", "rule": "minimum 0", "check": "strict exists(…)"}, …]
    check_rules   jsonb,
    constraint event_schema_pkey primary key (namespace, event_type),
    constraint event_schema_event_type_exists foreign key (namespace, event_type)
        references headrace_internal.event_type (namespace, event_type) on delete cascade,
    constraint event_schema_compatibility_known check (compatibility in ('backward', 'forward', 'full', 'none')),
    constraint event_schema_validation_known check (validation in ('off', 'warn', 'reject')),
    constraint event_schema_validation_has_check check (validation = 'off' or (check_path is not null and check_rules is not null)),
    constraint event_schema_262144_bytes check (octet_length(schema::text) <= 262144)
);

-- The check is read for every event that is published: it stays in the row and uncompressed, and the other columns give way.
alter table headrace_internal.event_schema alter column check_path set storage main;

-- Every version of every schema.
create table headrace_internal.event_schema_version (
    namespace     text        not null,
    event_type    text        not null,
    version       integer     not null,
    schema        json        not null,
    compatibility text        not null,
    -- Set although it breaks the version before, or although nobody could tell.
    forced        boolean     not null,
    written_at    timestamptz not null default headrace.clock(),
    written_by    text        not null,
    constraint event_schema_version_pkey primary key (namespace, event_type, version),
    constraint event_schema_version_schema_exists foreign key (namespace, event_type)
        references headrace_internal.event_schema (namespace, event_type) on delete cascade
);
