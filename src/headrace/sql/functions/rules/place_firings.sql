-- Sets the positions of inline firings for events up to p_upto. Indexes: firing_position, log_event_id.
create or replace function headrace_internal.place_firings(p_topic_id integer, p_upto bigint) returns void
language plpgsql volatile
set enable_seqscan = off
set enable_bitmapscan = off
set jit = off
as $$
begin
    if exists (select from headrace_internal.firing f where f.topic_id = p_topic_id and f.position is null) then
        -- By the topic's own branch: by the whole log it would be planned for, and lock, every topic.
        execute format('update headrace_internal.firing f set position = l.position from headrace_internal.%I l '
            'where f.topic_id = $1 and f.position is null and l.event_id = f.event_id and l.position <= $2', 'log_' || p_topic_id)
        using p_topic_id, p_upto;
    end if;
end
$$;
