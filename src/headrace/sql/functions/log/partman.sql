-- Where pg_partman is installed: its schema and major version (4 and 5 have other signatures); else no row.
create or replace function headrace.partman() returns table (schema text, major integer)
language sql stable
as $$
    select n.nspname::text, split_part(e.extversion, '.', 1)::integer
    from pg_extension e join pg_namespace n on n.oid = e.extnamespace
    where e.extname = 'pg_partman'
$$;

-- How pg_partman writes the time into the names of a topic's partitions; null for a topic it does not manage.
create or replace function headrace.partman_format(p_topic_id integer) returns text
language plpgsql stable
as $$
declare
    v_schema text;
    v_format text;
begin
    select p.schema into v_schema from headrace.partman() p;
    if found then
        execute format('select datetime_string from %I.part_config where parent_table = %L',
            v_schema, 'headrace.log_' || p_topic_id) into v_format;
    end if;
    return v_format;
end
$$;

-- Hands a new topic's branch to pg_partman. True when it did.
create or replace function headrace.partman_adopt(p_topic_id integer) returns boolean
language plpgsql volatile
set timezone = 'UTC'
as $$
declare
    v_partman record;
    v_width   text;
begin
    select p.schema, p.major into v_partman from headrace.partman() p;
    if not found then
        return false;
    end if;
    select t.time_partition into strict v_width from headrace.topic t where t.topic_id = p_topic_id;
    execute format('select %I.create_parent(p_parent_table := %L, p_control := %L, p_type := %L, p_interval := %L,'
            ' p_premake := 2, p_start_partition := %L)',
        v_partman.schema, 'headrace.log_' || p_topic_id, 'appended_at',
        case when v_partman.major < 5 then 'native' else 'range' end,
        '1 ' || v_width, to_char(date_trunc(v_width, headrace.clock()), 'YYYY-MM-DD'));
    return true;
end
$$;

-- Lets pg_partman make the partitions it thinks are due. False for a topic it does not manage.
-- Locks: the default partition, access exclusive, as any new partition beside it does.
create or replace function headrace.partman_maintain(p_topic_id integer) returns boolean
language plpgsql volatile
as $$
declare
    v_default regclass := (
        select p.partdefid::regclass
        from pg_partitioned_table p
        where p.partrelid = to_regclass(format('headrace.%I', 'log_' || p_topic_id)) and p.partdefid <> 0);
begin
    if headrace.partman_format(p_topic_id) is null then
        return false;
    end if;
    if v_default is not null then
        -- Here, because pg_partman hides the code of an error, and with it that the lock was not to be had.
        execute format('lock table %s in access exclusive mode', v_default);
    end if;
    execute format('select %I.run_maintenance(p_parent_table := %L, p_analyze := false)',
        (select p.schema from headrace.partman() p), 'headrace.log_' || p_topic_id);
    return true;
end
$$;

-- Drops the partitions of a topic that end at or before the moment given, through pg_partman.
-- False for a topic it does not manage.
create or replace function headrace.partman_drop(p_topic_id integer, p_before timestamptz) returns boolean
language plpgsql volatile
set timezone = 'UTC'
as $$
begin
    if headrace.partman_format(p_topic_id) is null then
        return false;
    end if;
    execute format('select %I.drop_partition_time(p_parent_table := %L, p_retention := %L, p_keep_table := false,'
            ' p_keep_index := false, p_reference_timestamp := %L)',
        (select p.schema from headrace.partman() p), 'headrace.log_' || p_topic_id, interval '0', p_before);
    return true;
end
$$;

-- Takes a dropped topic out of pg_partman's books.
create or replace function headrace.partman_forget(p_topic_id integer) returns void
language plpgsql volatile
as $$
declare
    v_schema text;
begin
    select p.schema into v_schema from headrace.partman() p;
    if found then
        execute format('delete from %I.part_config where parent_table = %L', v_schema, 'headrace.log_' || p_topic_id);
    end if;
end
$$;
