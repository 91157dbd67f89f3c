-- Drops the match function of a topic, if it exists.
create or replace function headrace_internal.drop_match(p_topic_id integer) returns void
language plpgsql volatile
as $$
declare
    v_function text := format('headrace_internal.%I(bigint, bigint)', 'match_' || p_topic_id);
begin
    if to_regprocedure(v_function) is not null then
        execute format('drop function %s', v_function);
    end if;
end
$$;
