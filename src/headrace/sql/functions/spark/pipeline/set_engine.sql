-- Says where the rules and correlators of a topic run: 'database' or 'spark'. It waits for the batch that runs, whichever engine has
-- it; the other one goes on from the cursors, with the correlators' own rows. Returns false when it was so already.
-- Locks: the cursors of the topic's rules and correlators, then the topic row, both no key update.
create or replace function headrace.set_engine(p_topic text, p_engine text, p_namespace text default null) returns boolean
language plpgsql volatile
as $$
declare
    v_topic_id integer := headrace_internal.topic_id(p_topic, p_namespace);
begin
    if p_engine is null or p_engine not in ('database', 'spark') then
        raise exception 'there is no engine "%"', p_engine
            using errcode = 'HR300', hint = 'Rules and correlators run in the ''database'' or on ''spark''.';
    end if;
    perform u.position
    from headrace_internal.consumer c
    join headrace_internal.cursor u on u.consumer_id = c.consumer_id
    where c.topic_id = v_topic_id and starts_with(c.consumer, 'headrace.')
    order by u.consumer_id
    for no key update of u;
    update headrace.topic t set engine = p_engine where t.topic_id = v_topic_id and t.engine <> p_engine;
    if not found then
        return false;
    end if;
    -- The engine that takes over need not wait for the next event.
    perform pg_notify('headrace_log', v_topic_id::text);
    return true;
end
$$;
