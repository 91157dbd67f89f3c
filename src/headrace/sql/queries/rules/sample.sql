-- A table of events for the tester of conditions; it goes with the transaction.
create temporary table sample (
    number     integer,
    type       text,
    key        text,
    headers    jsonb,
    payload    jsonb,
    emitted_at timestamptz
) on commit drop;
