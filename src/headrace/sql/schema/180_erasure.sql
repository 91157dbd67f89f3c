-- Erasures: who erased the events of a key, when and how many rows; never the key itself or anything of its data.
create table headrace_internal.erasure (
    erasure_id bigint      not null generated always as identity,
    namespace  text        not null,
    topic      text        not null,
    -- The fields that were redacted; null: whole payloads were erased.
    fields     text[],
    -- What the events have instead of their key; null: they keep it.
    new_key    text,
    erased_by  text        not null,
    erased_at  timestamptz not null default headrace.clock(),
    -- The number of rows by place: {"log": 3, "dead letters": 1}.
    row_counts jsonb       not null default '{}',
    -- Tables that still hold the old versions of the rows: VACUUM removes them.
    tables     text[]      not null default '{}',
    constraint erasure_pkey primary key (erasure_id),
    constraint erasure_namespace_exists foreign key (namespace) references headrace_internal.namespace (namespace) on delete cascade
);

-- Erased events that may still be in files of the archive. The row goes away when the files have been written again.
create table headrace_internal.erasure_pending (
    erasure_id bigint      not null,
    topic_id   integer     not null,
    event_ids  uuid[]      not null,
    -- These are outputs of a correlator, which quote an event.
    outputs    boolean     not null,
    constraint erasure_pending_pkey primary key (erasure_id, topic_id),
    constraint erasure_pending_erasure_exists foreign key (erasure_id) references headrace_internal.erasure (erasure_id) on delete cascade,
    constraint erasure_pending_topic_exists foreign key (topic_id) references headrace_internal.topic (topic_id) on delete cascade
);
create index erasure_pending_topic on headrace_internal.erasure_pending (topic_id);
