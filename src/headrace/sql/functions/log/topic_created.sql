-- After a topic was inserted: records its first partition count and creates its branch of the log, managed by pg_partman if it is
-- installed; the sequencer attaches it, see headrace_internal.attach_log. Runs as the owner, because a branch is a table of ours; only a trigger, so nobody can call it.
create or replace function headrace_internal.topic_created() returns trigger
language plpgsql volatile
security definer
set search_path = pg_catalog, pg_temp
set timezone = 'UTC'
-- Tables of ours are where the owner's are, whatever the caller's session says.
set default_tablespace = ''
set default_table_access_method = 'heap'
as $$
declare
    v_branch  text := 'log_' || new.topic_id;
    v_partman record;
begin
    insert into headrace_internal.topic_border (topic_id, position, partitions) values (new.topic_id, 0, new.partitions);
    execute format('create table headrace_internal.%I (like headrace_internal.log) partition by range (appended_at)', v_branch);
    select p.schema, p.major into v_partman from headrace_internal.partman(new.topic_id) p;
    if found then
        execute format('select %I.create_parent(p_parent_table := %L, p_control := %L, p_type := %L, p_interval := %L,'
                ' p_premake := 2, p_start_partition := %L)',
            v_partman.schema, 'headrace_internal.' || v_branch, 'appended_at',
            case when v_partman.major < 5 then 'native' else 'range' end,
            '1 ' || new.time_partition, to_char(date_trunc(new.time_partition, headrace.clock()), 'YYYY-MM-DD'));
    end if;
    perform headrace_internal.extend_log(new.topic_id, headrace.clock());
    return null;
end
$$;

create or replace trigger topic_created after insert on headrace_internal.topic
for each row execute function headrace_internal.topic_created();
