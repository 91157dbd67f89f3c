-- Lets the rules of a topic (p_correlator_id is 0) or one of its correlators work on the events from p_first to p_last. Returns the number of
-- firings or tokens; null if these events are not what it handles next.
-- Calls: react_at, correlate_at.
create or replace function headrace_internal.pass_events(p_topic_id integer, p_correlator_id bigint, p_first bigint, p_last bigint)
returns integer
language plpgsql volatile
as $$
begin
    return case when p_correlator_id = 0 then headrace_internal.react_at(p_topic_id, p_first - 1, p_last)
        else headrace_internal.correlate_at(p_topic_id, p_correlator_id, p_first - 1, p_last) end;
end
$$;

-- The pass of a step of the sequencer: lets rules and simple correlators that are caught up work on the events that the step has just appended,
-- in its transaction. The events of p_topic_ids[i] are those from p_firsts[i] to p_lasts[i]. Of a topic of p_pass_topics, its rules
-- (p_pass_correlators has 0 at that place) or one correlator take part.
-- Contained in errors: all of it is one subtransaction. After an error it is undone and begins again without the one that failed, with a subtransaction
-- for each of the others. In locks: none is waited for longer than 5 ms. In time: after p_pass_ms none begins any more, and none after the 25th, because a
-- correlator takes up to two subtransactions, and more than 64 in a transaction make every snapshot of the server slow.
-- Returns for each topic an array of those that took part: number of the correlator or 0, outputs (null: it failed), and milliseconds.
-- Whoever is not named has done nothing: others hold its cursor, or something else than these events is due. It goes the ordinary way, and so does
-- one that failed, where its error is recorded.
-- Locks: what headrace_internal.react_at and headrace_internal.correlate_at lock.
-- Calls: pass_events.
create or replace function headrace_internal.run_pass(
    p_topic_ids integer[], p_firsts bigint[], p_lasts bigint[], p_pass_topics integer[], p_pass_correlators bigint[],
    p_pass_ms double precision
) returns jsonb
language plpgsql volatile set search_path = pg_catalog, pg_temp
set lock_timeout = '5ms'
as $$
declare
    v_end      timestamptz := clock_timestamp() + make_interval(secs => p_pass_ms / 1000);
    v_is_alone boolean := false;
    v_failed   integer[] := '{}';
    v_served   jsonb;
    v_of_topic jsonb;
    v_count    integer;
    v_place    integer;
    v_started  timestamptz;
    v_outputs  integer;
begin
    loop
        v_served := '{}';
        v_count := 0;
        begin
            for v_number in 1 .. cardinality(p_topic_ids) loop
                v_of_topic := '[]';
                foreach v_place in array array_positions(p_pass_topics, p_topic_ids[v_number]) loop
                    continue when v_place = any (v_failed);
                    v_started := clock_timestamp();
                    exit when v_started > v_end or v_count = 25;
                    v_count := v_count + 1;
                    if v_is_alone then
                        begin
                            v_outputs := headrace_internal.pass_events(p_topic_ids[v_number], p_pass_correlators[v_place],
                                p_firsts[v_number], p_lasts[v_number]);
                        exception when others then
                            v_failed := v_failed || v_place;
                            v_outputs := null;
                        end;
                    else
                        v_outputs := headrace_internal.pass_events(p_topic_ids[v_number], p_pass_correlators[v_place],
                            p_firsts[v_number], p_lasts[v_number]);
                    end if;
                    if v_outputs is not null then
                        v_of_topic := v_of_topic || jsonb_build_array(jsonb_build_array(p_pass_correlators[v_place], v_outputs,
                            round(1000 * extract(epoch from clock_timestamp() - v_started), 3)));
                    end if;
                end loop;
                if v_of_topic <> '[]' then
                    v_served := v_served || jsonb_build_object(p_topic_ids[v_number], v_of_topic);
                end if;
            end loop;
            exit;
        exception when others then
            if v_is_alone then
                -- Each one's error was caught. Whatever this is, the events are appended all the same.
                return null;
            end if;
            -- Of the one that was at work.
            v_failed := v_failed || v_place;
            v_is_alone := true;
        end;
    end loop;
    for v_number in 1 .. cardinality(v_failed) loop
        v_served := jsonb_set(v_served, array[p_pass_topics[v_failed[v_number]]::text],
            coalesce(v_served -> p_pass_topics[v_failed[v_number]]::text, '[]')
                || jsonb_build_array(jsonb_build_array(p_pass_correlators[v_failed[v_number]], null, 0)));
    end loop;
    return v_served;
end
$$;
