-- Drops the function that headrace_internal.write_inline has created for a topic, if there is one.
create or replace function headrace_internal.drop_inline(p_topic_id integer) returns void
language plpgsql volatile
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_function regprocedure := (
        select f.oid from pg_proc f
        where f.pronamespace = 'headrace_internal'::regnamespace and f.proname = 'match_inline_' || p_topic_id);
begin
    if v_function is not null then
        execute format('drop function %s', v_function);
    end if;
end
$$;
