-- Drops the time partitions of a topic's log that ended before p_before, oldest first, and returns what it dropped and kept.
-- A partition stays while a consumer has not passed its last event, unless p_force; and, if the topic is archived, until the
-- archive holds all of it, even with p_force. kept_for names who it is kept for. Raises HR208 unless READ COMMITTED: an older
-- snapshot does not show the newest consumers.
-- Locks: the topic row; the branch and the dropped partitions, access exclusive, for which it waits at most 200 ms: readers queue
-- behind it. Index: log_position, at both ends of a partition.
-- Runs as the owner: a node may not create or drop tables. Where pg_partman manages the topic, it leaves this search path behind in
-- the session; the sessions of nodes have it anyway.
create or replace function headrace.drop_expired(p_topic_id integer, p_before timestamptz, p_force boolean default false)
returns table (name text, from_at timestamptz, to_at timestamptz, events bigint, dropped boolean, kept_for text)
language plpgsql volatile
security definer
set search_path = pg_catalog, pg_temp
set lock_timeout = '200ms'
set timezone = 'UTC'
as $$
#variable_conflict use_column
declare
    v_part    record;
    v_first   bigint;
    v_last    bigint;
    v_archive boolean;
    v_partman record;
begin
    perform headrace_internal.require_read_committed('headrace.drop_expired');
    select p.schema, p.name_format into v_partman from headrace_internal.partman(p_topic_id) p;
    select t.archive into v_archive from headrace_internal.topic t where t.topic_id = p_topic_id for no key update;
    for v_part in
        select p.name, p.from_at, p.to_at from headrace.time_partitions(p_topic_id) p
        where p.to_at <= p_before and p.to_at <= headrace.log_clock(p_topic_id)
    loop
        name := v_part.name::text;
        from_at := v_part.from_at;
        to_at := v_part.to_at;
        execute format('select min(position), max(position) from %s', v_part.name) into v_first, v_last;
        -- Positions have no gaps.
        events := coalesce(v_last - v_first + 1, 0);
        kept_for := headrace_internal.consumers_before(p_topic_id, v_last);
        dropped := p_force or kept_for is null;
        if v_archive and not headrace.is_archived(p_topic_id, v_first, v_last) then
            dropped := false;
            kept_for := concat_ws(', ', kept_for, 'the archive');
        end if;
        if dropped then
            -- Here, because pg_partman hides the code of an error.
            execute format('lock table only headrace_internal.%I, %s in access exclusive mode', 'log_' || p_topic_id, v_part.name);
            -- A seek that was under way has read the log, so it has committed now, and may have moved a cursor back.
            kept_for := headrace_internal.consumers_before(p_topic_id, v_last);
            dropped := p_force or kept_for is null;
        end if;
        if dropped then
            update headrace_internal.topic t set dropped_to = greatest(t.dropped_to, v_last) where t.topic_id = p_topic_id;
            if v_partman.name_format is not null then
                execute format('select %I.drop_partition_time(p_parent_table := %L, p_retention := %L, p_keep_table := false,'
                        ' p_keep_index := false, p_reference_timestamp := %L)',
                    v_partman.schema, 'headrace_internal.log_' || p_topic_id, interval '0', v_part.to_at);
            end if;
            if to_regclass(v_part.name::text) is not null then
                execute format('drop table %s', v_part.name);
            end if;
        end if;
        return next;
        -- Nothing younger may go before it: the log has no holes.
        exit when not dropped;
    end loop;
end
$$;
