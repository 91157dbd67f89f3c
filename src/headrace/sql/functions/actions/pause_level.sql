-- The level it takes to pause and resume something of a kind; raises HR300 for an unknown kind.
create or replace function headrace_internal.pause_level(p_kind text, p_name text) returns text
language plpgsql immutable
as $$
begin
    if p_kind is null or p_kind not in ('consumer', 'rule', 'correlator', 'relay', 'schedule', 'action', 'queue') then
        raise exception '% cannot be paused', coalesce(quote_literal(p_kind), 'null')
            using errcode = 'HR300', hint = 'Choose consumer, rule, correlator, relay, schedule, action or queue.';
    end if;
    if (p_kind = 'queue') <> (coalesce(p_name, '') = '') then
        raise exception 'pausing or resuming a % takes %', p_kind, case p_kind when 'queue' then 'no name' else 'its name' end
            using errcode = 'HR300', hint = 'A namespace has one queue. A consumer is named topic/consumer.';
    end if;
    -- The consumers of rules belong to these.
    return case when p_kind in ('action', 'queue') then 'work'
        when p_kind = 'relay' or (p_kind = 'consumer' and p_name not like '%/headrace.%') then 'consume' else 'admin' end;
end
$$;
