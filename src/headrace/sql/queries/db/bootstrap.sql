-- What the migrator itself stands on. Runs before every migration, changes nothing when it is there.
create schema if not exists headrace;
create table if not exists headrace.migration (
    name       text        not null,
    checksum   text        not null,
    applied_at timestamptz not null default statement_timestamp(),
    constraint migration_pkey primary key (name)
);
