-- Captures: which table's changes become events of which topic. Written by headrace.capture, read by its triggers.
create table headrace.capture (
    captured    regclass    not null,
    topic_id    integer     not null,
    -- The columns whose values make the key; none for events without one.
    key_columns text[]      not null,
    -- The column that holds the event's type; when null, the type is given per operation.
    type_column text,
    insert_type text,
    update_type text,
    delete_type text,
    -- The columns that go into the payload; null for all of them.
    columns     text[],
    created_at  timestamptz not null default headrace.clock(),
    constraint capture_pkey primary key (captured, topic_id),
    constraint capture_topic_exists foreign key (topic_id) references headrace.topic (topic_id) on delete cascade
);
