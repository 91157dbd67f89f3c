-- A table of events for the condition tester; dropped at the end of the transaction.
create temporary table sample (
    number     integer,
    type       text,
    key        text,
    headers    jsonb,
    payload    jsonb,
    emitted_at timestamptz
) on commit drop;
