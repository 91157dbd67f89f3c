-- The first position of the archive from which it reaches the log without a gap; null if it does not reach the log, or if the log
-- holds everything. Index: archive_position.
create or replace function headrace.archived_from(
    p_topic_id integer, p_dropped_to bigint, p_caller headrace_internal.caller default current_user
) returns bigint
language plpgsql stable
security definer
set search_path = pg_catalog, pg_temp
as $$
begin
    perform headrace_internal.authorize_id(p_caller, 'consume', 'topic', p_topic_id);
    return (
        select max(f.first_position) filter (where f.begins)
        from (
            select a.first_position, a.last_position,
                lag(a.last_position) over (order by a.first_position) is distinct from a.first_position - 1 as begins
            from headrace_internal.archive a
            where a.topic_id = p_topic_id and a.first_position <= p_dropped_to
        ) f
        having max(f.last_position) >= p_dropped_to);
end
$$;
