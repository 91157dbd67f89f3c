-- Lets pg_partman create the partitions that it considers due. False for a topic it does not manage.
-- Locks: the default partition, access exclusive, as every new partition beside it does.
create or replace function headrace_internal.partman_maintain(p_topic_id integer) returns boolean
language plpgsql volatile
as $$
declare
    v_default regclass := (
        select p.partdefid::regclass
        from pg_partitioned_table p
        where p.partrelid = to_regclass(format('headrace_internal.%I', 'log_' || p_topic_id)) and p.partdefid <> 0);
begin
    if headrace_internal.partman_format(p_topic_id) is null then
        return false;
    end if;
    if v_default is not null then
        -- Here, because pg_partman hides the code of an error, and with it that the lock was not to be had.
        execute format('lock table %s in access exclusive mode', v_default);
    end if;
    execute format('select %I.run_maintenance(p_parent_table := %L, p_analyze := false)',
        (select p.schema from headrace_internal.partman() p), 'headrace_internal.log_' || p_topic_id);
    return true;
end
$$;
