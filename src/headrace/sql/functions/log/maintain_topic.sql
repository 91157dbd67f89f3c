-- Applies the retention of one topic and creates its time partitions ahead; see headrace.maintain_log. Nothing is done, and nothing
-- locked, while neither is due, or while somebody else holds the topic.
-- Locks: the topic row (no key update, skip locked), and what headrace_internal.extend_log and headrace.drop_expired lock.
create or replace function headrace_internal.maintain_topic(p_topic_id integer)
returns table (name text, events bigint, dropped boolean, kept_for text)
language plpgsql volatile
as $$
#variable_conflict use_column
declare
    v_ends_soon boolean;
    v_retention interval;
    v_clock     timestamptz;
    v_before    timestamptz;
begin
    select t.clock = 'server' and t.log_until < headrace.clock() + ('1 ' || t.time_partition)::interval,
        t.retention
    into v_ends_soon, v_retention
    from headrace_internal.topic t where t.topic_id = p_topic_id;
    v_clock := headrace.log_clock(p_topic_id);
    v_before := v_clock - v_retention;
    if v_ends_soon or exists (select from headrace.time_partitions(p_topic_id) p where p.to_at <= v_before) then
        perform from headrace_internal.topic t where t.topic_id = p_topic_id for no key update skip locked;
        if not found then
            return;
        end if;
        if v_ends_soon then
            perform headrace_internal.extend_log(p_topic_id, headrace.clock());
        end if;
        return query select d.name, d.events, d.dropped, d.kept_for from headrace.drop_expired(p_topic_id, v_before) d;
    end if;
end
$$;
