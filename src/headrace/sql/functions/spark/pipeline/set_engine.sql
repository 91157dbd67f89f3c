-- Sets where the rules and correlators of a topic run: 'database' or 'spark'. It waits for the running batch of either engine; the
-- other engine continues from the cursors and the correlators' rows. Returns false if nothing changed.
-- Locks: the cursors of the topic's rules and correlators, then the topic row, both no key update.
create or replace function headrace.set_engine(
    p_topic text, p_engine text, p_namespace text default null, p_caller headrace_internal.caller default current_user
) returns boolean
language plpgsql volatile
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_namespace text := headrace_internal.authorize(p_caller, 'admin', p_namespace, p_topic);
    v_topic_id  integer := headrace.topic_id(p_topic, v_namespace);
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
    update headrace_internal.topic t set engine = p_engine where t.topic_id = v_topic_id and t.engine <> p_engine;
    if not found then
        return false;
    end if;
    -- The engine that takes over does not wait for the next event.
    perform headrace_internal.notify('headrace_log', v_topic_id::text);
    return true;
end
$$;
