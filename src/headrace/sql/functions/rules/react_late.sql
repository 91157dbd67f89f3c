-- Evaluates the inline rules of events whose inline evaluation failed, once the rules' cursor has reached them. Returns the number of
-- firings. An error here is recorded with the events, which are then tried again with the next batch: it does not stop the other rules
-- of the topic. Indexes: inline_failure_topic, log_event_id.
create or replace function headrace_internal.react_late(p_topic_id integer, p_upto bigint) returns integer
language plpgsql volatile
set enable_seqscan = off
set enable_bitmapscan = off
set jit = off
as $$
declare
    v_events  uuid[];
    v_first   bigint;
    v_last    bigint;
    v_hits    headrace_internal.rule_hit[];
    v_firings integer := 0;
begin
    if not exists (select from headrace_internal.inline_failure f where f.topic_id = p_topic_id) then
        return 0;
    end if;
    -- By the topic's own branch: by the whole log it would be planned for, and lock, every topic.
    execute format('select array_agg(l.event_id), min(l.position), max(l.position) '
        'from (select distinct f.event_id from headrace_internal.inline_failure f where f.topic_id = $1) f '
        'join headrace_internal.%I l on l.event_id = f.event_id and l.position <= $2', 'log_' || p_topic_id)
    into v_events, v_first, v_last using p_topic_id, p_upto;
    if v_events is null then
        return 0;
    end if;
    for v_hits in
        select array(select h from unnest(m.hits) h where h.event_id = any (v_events))
        from headrace_internal.match_events(p_topic_id, 'late', v_first - 1, v_last) m (hits)
    loop
        v_firings := v_firings + headrace_internal.fire(p_topic_id, v_hits);
    end loop;
    delete from headrace_internal.inline_failure f where f.topic_id = p_topic_id and f.event_id = any (v_events);
    return v_firings;
exception
    when others then
        if headrace_internal.is_program_error(sqlstate) then
            update headrace_internal.inline_failure f set error = sqlerrm where f.topic_id = p_topic_id;
            return 0;
        end if;
        raise;
end
$$;
