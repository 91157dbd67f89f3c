-- Returns the actions and event types of a correlator's outputs that are not registered in the namespace, in words; null if all are.
create or replace function headrace_internal.unknown_outputs(p_namespace text, p_outputs jsonb) returns text
language sql stable
as $$
    select nullif(string_agg(case
        when o.value ? 'action' and not exists (select from headrace_internal.action a
            where a.namespace = p_namespace and a.action = o.value ->> 'action')
        then format('action "%s" is not registered', o.value ->> 'action')
        when o.value ? 'event' and not exists (select from headrace_internal.event_type e
            where e.namespace = p_namespace and e.event_type = o.value ->> 'event')
        then format('event type "%s" is not registered', o.value ->> 'event') end, ' and ' order by o.key), '')
    from jsonb_each(p_outputs) o
$$;

-- Rejects a correlator with outputs that are not of the form {"token": {"action": …} or {"event": …, "topic": …}} (HR342). Their topics must exist
-- (HR101), and their tokens occur in the pattern's text. A token that occurs there but is never pushed is found when a node compiles the
-- pattern, and the correlator is marked invalid. So is a pattern that pushes nothing: only the compiler can say where it is malformed.
-- Reports the outputs' names that are not registered.
-- Calls: refuse_reserved_topic, topic_id, check_names, unknown_outputs.
create or replace function headrace_internal.check_correlator(p_correlator headrace_internal.correlator) returns void
language plpgsql stable
as $$
declare
    v_output record;
    v_wrong  text;
begin
    for v_output in select o.key as token, o.value from jsonb_each(p_correlator.outputs) o loop
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
            perform headrace.topic_id(v_output.value ->> 'topic', p_correlator.namespace);
        end if;
        if p_correlator.pattern ~ '\mpush\M' and strpos(p_correlator.pattern, v_output.token) = 0 then
            raise exception 'output "%" is of a token that the pattern does not push', v_output.token using errcode = 'HR342',
                hint = format('Write push(%s) {…} in the pattern, correct the token, or remove the output.', v_output.token);
        end if;
    end loop;
    perform headrace_internal.check_names(p_correlator.namespace, format('namespace "%s": ', p_correlator.namespace)
        || headrace_internal.unknown_outputs(p_correlator.namespace, p_correlator.outputs), 'correlator');
end
$$;

-- A change is a new version.
create or replace trigger correlator_written before insert or update on headrace_internal.correlator
for each row execute function headrace_internal.definition_written();

-- After a correlator was written: records the new version and notifies the compilers. A deleted correlator ends at once, together
-- with its consumer, after a running batch. A correlator that is dropped with its topic leaves no version. Runs as the owner.
-- Calls: record_versions, create_internal_consumer, notify.
create or replace function headrace_internal.correlator_changed() returns trigger
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp
as $$
begin
    if tg_op = 'DELETE' then
        update headrace_internal.correlator_version v set until_at = headrace.clock(), until_position = (
            select u.position from headrace_internal.consumer c join headrace_internal.cursor u on u.consumer_id = c.consumer_id
            where c.topic_id = old.topic_id and c.consumer = 'headrace.correlator.' || old.correlator)
        where v.correlator_id = old.correlator_id and v.since_position is not null and v.until_at is null;
        delete from headrace_internal.consumer c where c.topic_id = old.topic_id and c.consumer = 'headrace.correlator.' || old.correlator;
        perform headrace_internal.record_versions('correlator', jsonb_build_array(to_jsonb(old)), p_dropped => true);
    else
        if headrace_internal.record_versions('correlator', jsonb_build_array(to_jsonb(new))) = '{}' then
            return null;
        end if;
        if new.active then
            perform headrace_internal.create_internal_consumer(new.topic_id, 'headrace.correlator.' || new.correlator);
        end if;
        if new.restart then
            update headrace_internal.correlator c set restart = false where c.correlator_id = new.correlator_id;
        end if;
    end if;
    perform headrace_internal.notify('headrace_rule', '');
    return null;
end
$$;

create or replace trigger correlator_changed after insert or update or delete on headrace_internal.correlator
for each row execute function headrace_internal.correlator_changed();
