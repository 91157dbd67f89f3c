-- Captures: the tables whose changes become events of a topic. headrace_internal.capture writes them, headrace.publish_rows reads them.
create table headrace_internal.capture (
    captured    regclass    not null,
    topic_id    integer     not null,
    -- The columns whose values form the key; empty for events without a key.
    key_columns text[]      not null,
    -- The column that holds the event's type; null: the type depends on the operation.
    type_column text,
    insert_type text,
    update_type text,
    delete_type text,
    -- The columns of the payload; null: all columns.
    columns     text[],
    created_at  timestamptz not null default headrace.clock(),
    constraint capture_pkey primary key (captured, topic_id),
    constraint capture_topic_exists foreign key (topic_id) references headrace_internal.topic (topic_id) on delete cascade
);
