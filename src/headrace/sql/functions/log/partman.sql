-- Where pg_partman is installed: its schema and major version (4 and 5 have other signatures); else no row.
create or replace function headrace.partman() returns table (schema text, major integer)
language sql stable
as $$
    select n.nspname::text, split_part(e.extversion, '.', 1)::integer
    from pg_extension e join pg_namespace n on n.oid = e.extnamespace
    where e.extname = 'pg_partman'
$$;

-- Hands a new topic's branch to pg_partman. True when it did.
create or replace function headrace.partman_adopt(p_topic_id integer) returns boolean
language plpgsql volatile
set timezone = 'UTC'
as $$
declare
    v_partman record;
    v_width   text;
    v_start   text;
begin
    select p.schema, p.major into v_partman from headrace.partman() p;
    if not found then
        return false;
    end if;
    select t.time_partition into strict v_width from headrace.topic t where t.topic_id = p_topic_id;
    v_start := to_char(date_trunc(v_width, headrace.clock()), 'YYYY-MM-DD');
    execute format('select %I.create_parent(p_parent_table := %L, p_control := %L, p_type := %L, p_interval := %L,'
            ' p_premake := 2, p_start_partition := %L)',
        v_partman.schema, 'headrace.log_' || p_topic_id, 'appended_at',
        case when v_partman.major < 5 then 'native' else 'range' end, '1 ' || v_width, v_start);
    return true;
end
$$;

-- Lets pg_partman make the partitions it thinks are due. A no-op for a topic it does not manage.
create or replace function headrace.partman_maintain(p_topic_id integer) returns boolean
language plpgsql volatile
as $$
declare
    v_schema text;
    v_known  boolean;
begin
    select p.schema into v_schema from headrace.partman() p;
    if not found then
        return false;
    end if;
    execute format('select exists (select from %I.part_config where parent_table = %L)', v_schema, 'headrace.log_' || p_topic_id)
        into v_known;
    if v_known then
        execute format('select %I.run_maintenance(p_parent_table := %L, p_analyze := false)', v_schema, 'headrace.log_' || p_topic_id);
    end if;
    return v_known;
end
$$;

-- Drops the partitions of a topic that end at or before the moment given, through pg_partman. False where it does not manage it.
create or replace function headrace.partman_drop(p_topic_id integer, p_before timestamptz) returns boolean
language plpgsql volatile
set timezone = 'UTC'
as $$
declare
    v_schema text;
    v_known  boolean;
begin
    select p.schema into v_schema from headrace.partman() p;
    if not found then
        return false;
    end if;
    execute format('select exists (select from %I.part_config where parent_table = %L)', v_schema, 'headrace.log_' || p_topic_id)
        into v_known;
    if v_known then
        execute format('select %I.drop_partition_time(p_parent_table := %L, p_retention := %L, p_keep_table := false,'
            ' p_reference_timestamp := %L)', v_schema, 'headrace.log_' || p_topic_id, interval '0', p_before);
    end if;
    return v_known;
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
