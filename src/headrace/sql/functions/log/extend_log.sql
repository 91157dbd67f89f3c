-- Creates the time partitions for a moment and p_ahead widths ahead, the latter through pg_partman if it manages the topic. All get
-- `replica identity full`, without which an erasure fails while a publication publishes them; pg_partman does not pass it on.
-- Locks: share update exclusive on the topic's branch while attaching, so readers and writers continue. With pg_partman also the
-- default partition, access exclusive, as every new partition beside it does; see headrace_internal.lock_briefly.
-- Runs as the owner: a node may not create or drop tables. Where pg_partman manages the topic, it leaves this search path behind in
-- the session; the sessions of nodes have it anyway.
create or replace function headrace_internal.extend_log(p_topic_id integer, p_at timestamptz, p_ahead integer default 2) returns timestamptz
language plpgsql volatile
security definer
set search_path = pg_catalog, pg_temp
-- Borders do not move with the session's time zone.
set timezone = 'UTC'
set default_tablespace = ''
set default_table_access_method = 'heap'
as $$
declare
    v_branch  text := 'log_' || p_topic_id;
    v_partman record;
    v_default regclass;
    v_width   text;
    v_from    timestamptz;
    v_to      timestamptz;
    v_name    text;
    v_leaf    regclass;
    v_until   timestamptz;
begin
    select t.time_partition into strict v_width from headrace_internal.topic t where t.topic_id = p_topic_id;
    select p.schema, p.name_format into v_partman from headrace_internal.partman(p_topic_id) p;
    if v_partman.name_format is not null and p_ahead > 0 then
        select p.partdefid::regclass into v_default
        from pg_partitioned_table p
        where p.partrelid = to_regclass(format('headrace_internal.%I', v_branch)) and p.partdefid <> 0;
        if found then
            -- Here, because pg_partman hides the code of an error, and with it that the lock was not available.
            perform headrace_internal.lock_briefly(v_default);
        end if;
        execute format('select %I.run_maintenance(p_parent_table := %L, p_analyze := false)',
            v_partman.schema, 'headrace_internal.' || v_branch);
    end if;
    for i in 0 .. p_ahead loop
        v_from := date_trunc(v_width, p_at) + i * ('1 ' || v_width)::interval;
        v_to := v_from + ('1 ' || v_width)::interval;
        continue when exists (
            select from headrace.time_partitions(p_topic_id) p where p.from_at < v_to and p.to_at > v_from);
        v_name := v_branch || '_p' || to_char(v_from, coalesce(v_partman.name_format, 'YYYYMMDD'));
        execute format('create table headrace_internal.%I (like headrace_internal.%I)', v_name, v_branch);
        execute format('alter table headrace_internal.%I attach partition headrace_internal.%I for values from (%L) to (%L)',
            v_branch, v_name, v_from, v_to);
    end loop;
    for v_leaf in
        select c.oid
        from pg_partition_tree(to_regclass(format('headrace_internal.%I', v_branch))) t
        join pg_class c on c.oid = t.relid
        where t.isleaf and c.relreplident <> 'f'
    loop
        execute format('alter table %s replica identity full', v_leaf);
    end loop;
    select max(p.to_at) into v_until from headrace.time_partitions(p_topic_id) p;
    update headrace_internal.topic t set log_until = v_until where t.topic_id = p_topic_id;
    return v_until;
end
$$;
