-- Erases what streams over a topic keep of these events: keys and captured values of outputs, and states, whose keys start again with
-- their next event. p_key is the key of the events, null for none. A state with kept values goes with any erasure: its values may be of
-- events that are no evidence any more. Locks: the streams' rows, before the others: a batch that runs would write a state back.
create or replace function headrace_internal.erase_streams(
    p_erasure headrace_internal.erasure, p_topic_id integer, p_positions bigint[], p_key text
) returns void
language plpgsql volatile
as $$
declare
    v_salt    text := gen_random_uuid()::text;
    v_streams integer[];
    v_states  bigint;
    v_outputs bigint;
begin
    perform from headrace_internal.stream s join headrace_internal.topic t on t.namespace = s.namespace and t.topic = s.topic
    where t.topic_id = p_topic_id order by s.stream_id for update of s;
    v_streams := array(
        select s.stream_id from headrace_internal.stream s
        join headrace_internal.topic t on t.namespace = s.namespace and t.topic = s.topic where t.topic_id = p_topic_id);
    delete from headrace_internal.stream_state s
    where s.stream_id = any (v_streams) and (s.key = p_key or s.state::jsonb -> 6 <> 'null' or exists (
        select from jsonb_array_elements_text(s.state::jsonb -> 2) e (position) where e.position::bigint = any (p_positions))
        or (s.state::jsonb ->> 3)::bigint > jsonb_array_length(s.state::jsonb -> 2));
    get diagnostics v_states = row_count;
    perform headrace_internal.count_erased(p_erasure.erasure_id, 'stream states', v_states);
    -- A new key for each old one, so that outputs stay apart. The salt is forgotten: nobody can compute it again.
    update headrace_internal.stream_output o
    set captured = case when o.captured is not null then '{}'::jsonb end,
        key = case when o.key = '' or o.key like 'erased-%' then o.key
            else 'erased-' || left(encode(sha256(convert_to(v_salt || o.key, 'UTF8')), 'hex'), 32) end
    where o.stream_id = any (v_streams) and (o.key = p_key or o.evidence && p_positions or o.evidence_total > cardinality(o.evidence));
    get diagnostics v_outputs = row_count;
    perform headrace_internal.count_erased(p_erasure.erasure_id, 'stream outputs', v_outputs);
end
$$;
