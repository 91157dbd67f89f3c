-- What the migrator itself needs. Runs before every migration and changes nothing when it is there.
create schema if not exists headrace;
create schema if not exists headrace_internal;
create table if not exists headrace_internal.migration (
    name       text        not null,
    checksum   text        not null,
    applied_at timestamptz not null default statement_timestamp(),
    constraint migration_pkey primary key (name)
);
-- A function may name one that comes after it.
set local check_function_bodies = off;
