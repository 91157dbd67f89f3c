-- Raises HR223 for a consumer that belongs to rules, to a correlator or to a relay: only what owns it creates and drops it. The cursors
-- of a relay may be moved like those of a consumer; rules and correlators have state that moves only with their events.
create or replace function headrace_internal.refuse_reserved_consumer(p_consumer text, p_is_seek boolean default false) returns void
language plpgsql immutable
as $$
begin
    if p_consumer like 'relay.%' and not p_is_seek then
        raise exception 'consumer "%" belongs to relay "%"', p_consumer, substr(p_consumer, length('relay.') + 1)
            using errcode = 'HR223', hint = 'Change or drop the relay. The names of other consumers must not start with "relay.".';
    end if;
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
