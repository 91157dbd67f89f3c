-- Rejects outputs that are not of the form {"token": {"action": …} or {"event": …, "topic": …}} (HR342). Their topics must exist
-- (HR101).
create or replace function headrace_internal.check_outputs(p_namespace text, p_outputs jsonb) returns void
language plpgsql stable
as $$
declare
    v_output record;
    v_wrong  text;
begin
    for v_output in select o.key as token, o.value from jsonb_each(p_outputs) o loop
        if jsonb_typeof(v_output.value) <> 'object' or (v_output.value ? 'action') = (v_output.value ? 'event') then
            v_wrong := 'is neither an action nor an event';
        elsif coalesce(v_output.value ->> 'action', v_output.value ->> 'event', '') !~ '^[A-Za-z_][A-Za-z0-9_.:/-]{0,199}$' then
            v_wrong := 'has an invalid name';
        elsif v_output.value ? 'action' and (v_output.value - '{action,priority,delay_s}'::text[] <> '{}'
            or coalesce(v_output.value ->> 'priority', '0') !~ '^-?[0-9]{1,9}$'
            or coalesce(v_output.value ->> 'delay_s', '0') !~ '^[0-9]{1,8}$') then
            v_wrong := 'may have action, priority and delay_s; the last two are numbers';
        elsif v_output.value ? 'event' and (v_output.value - '{event,topic,keyed}'::text[] <> '{}'
            or jsonb_typeof(v_output.value -> 'topic') is distinct from 'string'
            or jsonb_typeof(coalesce(v_output.value -> 'keyed', 'true')) <> 'boolean') then
            v_wrong := 'needs event and topic, and may have keyed (true or false)';
        end if;
        if v_wrong is not null then
            raise exception 'the output of token "%" %', v_output.token, v_wrong using errcode = 'HR342',
                hint = 'Write {"token": {"action": "NAME", "priority": 0, "delay_s": 0}} or {"token": {"event": "type", "topic": "name"}}.';
        end if;
        if v_output.value ? 'event' then
            perform headrace_internal.refuse_reserved_topic(v_output.value ->> 'topic');
            perform headrace.topic_id(v_output.value ->> 'topic', p_namespace);
        end if;
    end loop;
end
$$;
