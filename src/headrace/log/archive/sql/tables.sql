-- Archive: the days of topics' logs that are in Parquet files. A row is written only after its file was read back and found
-- equal to the log; all days of a time partition come in one transaction.
create table headrace_internal.archive (
    archive_id  bigint      not null generated always as identity,
    topic_id    integer     not null,
    -- The day of appended_at, in UTC; a day that two time partitions share has a row in each.
    day         date        not null,
    first_position bigint   not null,
    last_position bigint    not null,
    first_at    timestamptz not null,
    last_at     timestamptz not null,
    events      bigint      not null,
    -- Sum over the rows of 60 bits of their SHA-256; see the query log/archive/days.
    checksum    numeric     not null,
    -- The folder and the name of the file; a reader may use another folder.
    folder      text        not null,
    file        text        not null,
    file_bytes  bigint      not null,
    archived_at timestamptz not null default headrace.clock(),
    archived_by text        not null default session_user,
    constraint archive_pkey primary key (archive_id),
    constraint archive_topic_exists foreign key (topic_id) references headrace_internal.topic (topic_id) on delete cascade,
    constraint archive_without_gaps check (events = last_position - first_position + 1),
    constraint archive_not_empty check (events > 0)
);

-- The files that hold a range of positions.
create unique index archive_position on headrace_internal.archive (topic_id, first_position);
