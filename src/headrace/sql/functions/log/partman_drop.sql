-- Drops the partitions of a topic that end at or before a moment, through pg_partman. False for a topic it does not manage.
create or replace function headrace_internal.partman_drop(p_topic_id integer, p_before timestamptz) returns boolean
language plpgsql volatile
set timezone = 'UTC'
as $$
begin
    if headrace_internal.partman_format(p_topic_id) is null then
        return false;
    end if;
    execute format('select %I.drop_partition_time(p_parent_table := %L, p_retention := %L, p_keep_table := false,'
            ' p_keep_index := false, p_reference_timestamp := %L)',
        (select p.schema from headrace_internal.partman() p), 'headrace_internal.log_' || p_topic_id, interval '0', p_before);
    return true;
end
$$;
