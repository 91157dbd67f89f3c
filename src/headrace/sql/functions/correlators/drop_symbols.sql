-- Drops the classifying function of a correlator, if it exists.
create or replace function headrace_internal.drop_symbols(p_correlator_id integer) returns void
language plpgsql volatile
as $$
declare
    v_function text := format('headrace_internal.%I(bigint, bigint)', 'symbols_' || p_correlator_id);
begin
    if to_regprocedure(v_function) is not null then
        execute format('drop function %s', v_function);
    end if;
end
$$;
