-- Evaluates the rules of a topic on its next events: one batch, one transaction with firings, actions and cursor.
-- Returns the number of events and firings; no row when nothing is due, when another session holds the cursor, when the rules of
-- the topic are paused, when it runs on another engine, or while a rule waits for the compiler: an event published after a rule was written does not pass before the
-- rule is active.
-- Locks: the cursor row, no key update, skip locked. Index: rule_version_pending; see also batch_end and match_events.
create or replace function headrace_internal.react(p_topic_id integer, p_max integer default 1000)
returns table (events integer, firings integer, "position" bigint)
language plpgsql volatile
security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set jit = off
as $$
#variable_conflict use_column
declare
    v_cursor record;
    v_upto   bigint;
    v_hits   headrace_internal.rule_hit[];
begin
    select u.consumer_id, u.position, u.single_to into v_cursor
    from headrace_internal.consumer c
    join headrace_internal.cursor u on u.consumer_id = c.consumer_id and u.partition = -1
    where c.topic_id = p_topic_id and c.consumer = 'headrace.rules'
        and u.state = 'running' and (u.retry_at is null or u.retry_at <= headrace.clock())
        and not exists (select from headrace_internal.pause p where p.consumer_id = c.consumer_id)
    for no key update of u skip locked;
    -- Checked while the cursor is locked: moving a topic to another engine locks it as well.
    if not found or (select t.engine from headrace_internal.topic t where t.topic_id = p_topic_id) <> 'database' then
        return;
    end if;
    select b.upto, b.events into v_upto, events
    from headrace_internal.batch_end(v_cursor.consumer_id, p_topic_id, -1, v_cursor.position,
        case when v_cursor.single_to > v_cursor.position then 1 else p_max end) b;
    -- Checked after the events: a rule written later than this check is later than all of them.
    if events = 0 or exists (select from headrace_internal.rule_version v where v.topic_id = p_topic_id and v.status = 'pending') then
        return;
    end if;
    firings := 0;
    for v_hits in select m.hits from headrace_internal.match_events(p_topic_id, 'after', v_cursor.position, v_upto) m (hits) loop
        firings := firings + headrace_internal.fire(p_topic_id, v_hits);
    end loop;
    firings := firings + headrace_internal.react_late(p_topic_id, v_upto);
    perform headrace_internal.place_firings(p_topic_id, v_upto);
    perform headrace.advance(v_cursor.consumer_id, -1, v_upto);
    position := v_upto;
    return next;
end
$$;
