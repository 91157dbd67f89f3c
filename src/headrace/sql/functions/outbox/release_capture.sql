-- Ends the capture of a table into a topic, or into every topic if p_topic is null. Raises HR100 if it is not captured.
-- Locks: access exclusive on the table while the triggers are dropped.
create or replace function headrace.release_capture(p_table regclass, p_topic text default null, p_namespace text default null)
returns void
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
    v_only  integer := case when p_topic is not null then headrace.topic_id(p_topic, p_namespace) end;
    v_topic integer;
begin
    for v_topic in
        select f.topic_id from headrace.forget_capture(p_table, v_only, p_namespace) f (topic_id)
    loop
        perform headrace.drop_capture_triggers(p_table, v_topic);
    end loop;
    if not found then
        raise exception 'table % is not captured%', p_table, coalesce(format(' into topic "%s"', p_topic), '')
            using errcode = 'HR100', hint = 'Captured tables are listed in headrace.capture.';
    end if;
end
$$;
