-- Raises HR223 for a consumer that belongs to rules or to a correlator: only the functions that own it create, move and drop it.
create or replace function headrace_internal.refuse_reserved_consumer(p_consumer text) returns void
language plpgsql immutable
as $$
begin
    if p_consumer like 'headrace.%' then
        raise exception 'consumer "%" belongs to %', p_consumer, case
            when p_consumer like 'headrace.correlator.%' then format('correlator "%s"', substr(p_consumer, length('headrace.correlator.') + 1))
            else 'the rules of its topic' end
            using errcode = 'HR223', hint = case when p_consumer like 'headrace.correlator.%'
                then 'Change or drop the correlator. To start its keys again: update headrace.correlator set restart = true.'
                else 'Change or drop the rules. The names of other consumers must not start with "headrace.".' end;
    end if;
end
$$;
