-- Does the archive hold these positions, both included, without a gap? True for an empty range (null). Index: archive_position.
create or replace function headrace.is_archived(
    p_topic_id integer, p_first bigint, p_last bigint, p_caller headrace_internal.caller default current_user
) returns boolean
language plpgsql stable
security definer
set search_path = pg_catalog, pg_temp
as $$
begin
    perform headrace_internal.authorize_id(p_caller, 'consume', 'topic', p_topic_id);
    return (
        -- Files do not overlap, so it is enough to count.
        select p_last is null or coalesce(sum(least(a.last_position, p_last) - greatest(a.first_position, p_first) + 1), 0) = p_last - p_first + 1
        from headrace_internal.archive a
        where a.topic_id = p_topic_id and a.first_position <= p_last and a.last_position >= p_first);
end
$$;
