-- The newest position of a topic's log and its time; no row for an empty log. Index: log_position, backwards.
create or replace function headrace.log_head(
    p_topic_id integer, p_caller headrace_internal.caller default current_user) returns table ("position" bigint, appended_at timestamptz
)
language plpgsql stable
security definer
set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
begin
    perform headrace_internal.authorize_id(p_caller, 'consume', 'topic', p_topic_id);
    return query
    select h.position, h.appended_at
    from headrace_internal.topic t
    cross join lateral headrace_internal.read_head(t.topic_id, t.clock, t.time_partition) h
    where t.topic_id = p_topic_id and h.position is not null;
end
$$;
