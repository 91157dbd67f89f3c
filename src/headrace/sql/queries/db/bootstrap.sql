-- Creates what the migrator itself needs. Runs before every migration and changes nothing that exists.
create schema if not exists headrace;
create schema if not exists headrace_internal;
create table if not exists headrace_internal.migration (
    name       text        not null,
    checksum   text        not null,
    applied_at timestamptz not null default statement_timestamp(),
    constraint migration_pkey primary key (name)
);
create table if not exists headrace_internal.release (
    release     text        not null,
    -- The oldest release whose nodes can run on the schema of this one.
    oldest_node text        not null,
    migrated_at timestamptz not null default statement_timestamp(),
    constraint release_pkey primary key (release)
);
