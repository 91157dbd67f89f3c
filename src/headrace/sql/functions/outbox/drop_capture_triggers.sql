-- Drops the triggers of one capture, with the caller's rights on the table. headrace_internal.capture and headrace.release_capture call it.
create or replace function headrace.drop_capture_triggers(p_table regclass, p_topic_id integer) returns void
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
    v_name name;
begin
    for v_name in
        select t.tgname from pg_trigger t
        where t.tgrelid = p_table and t.tgfoid = 'headrace.capture_rows()'::regprocedure
            and t.tgname in (select format('headrace_capture_%s_%s', p_topic_id, o.operation)
                from unnest('{insert,update,delete}'::text[]) o (operation))
    loop
        execute format('drop trigger %I on %s', v_name, p_table);
    end loop;
end
$$;
