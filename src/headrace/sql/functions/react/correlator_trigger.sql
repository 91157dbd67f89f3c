-- Refuses outputs that are not of the form {"token": {"action": …} or {"event": …, "topic": …}}: raises HR342. Topics must be there (HR101).
create or replace function headrace.check_outputs(p_namespace text, p_outputs jsonb) returns void
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
            v_wrong := 'has a name that is none';
        elsif v_output.value ? 'action' and (v_output.value - '{action,priority,delay_s}'::text[] <> '{}'
            or coalesce(v_output.value ->> 'priority', '0') !~ '^-?[0-9]{1,9}$'
            or coalesce(v_output.value ->> 'delay_s', '0') !~ '^[0-9]{1,8}$') then
            v_wrong := 'has more than action, priority and delay_s, or one that is no number';
        elsif v_output.value ? 'event' and (v_output.value - '{event,topic,keyed}'::text[] <> '{}'
            or jsonb_typeof(v_output.value -> 'topic') is distinct from 'string'
            or jsonb_typeof(coalesce(v_output.value -> 'keyed', 'true')) <> 'boolean') then
            v_wrong := 'needs event and topic, and may have keyed, true or false';
        end if;
        if v_wrong is not null then
            raise exception 'the output of token "%" %', v_output.token, v_wrong using errcode = 'HR342',
                hint = 'Write {"token": {"action": "NAME", "priority": 0, "delay_s": 0}} or {"token": {"event": "type", "topic": "name"}}.';
        end if;
        if v_output.value ? 'event' then
            perform headrace.topic_id(v_output.value ->> 'topic', p_namespace);
        end if;
    end loop;
end
$$;

-- Looks the names of outputs up in the registries: by the namespace's setting, an unknown one is refused (HR340), warned of, or let pass.
create or replace function headrace.check_output_names(p_namespace text, p_outputs jsonb) returns void
language plpgsql stable
as $$
declare
    v_policy  text;
    v_unknown text := headrace.unknown_outputs(p_namespace, p_outputs);
    v_hint    text := 'Insert the name into headrace.event_type or headrace.action, or correct the correlator.';
begin
    select n.unknown_names into v_policy from headrace.namespace n where n.namespace = p_namespace;
    if v_policy = 'allow' or v_unknown is null then
        return;
    elsif v_policy = 'refuse' then
        raise exception 'namespace "%": %', p_namespace, v_unknown using errcode = 'HR340', hint = v_hint;
    end if;
    raise warning 'namespace "%": %', p_namespace, v_unknown using hint = v_hint;
end
$$;

-- Before a correlator is written: finds its topic (HR101), checks its outputs, and counts a change of its definition as a new version.
-- Name and topic stay: another topic is another correlator.
create or replace function headrace.correlator_written() returns trigger
language plpgsql volatile
as $$
begin
    if tg_op = 'UPDATE' then
        if (new.namespace, new.correlator, new.topic) is distinct from (old.namespace, old.correlator, old.topic) then
            raise exception 'correlator "%" keeps its name and its topic', old.correlator
                using errcode = 'HR222', hint = 'Drop it, and create another one.';
        end if;
        if not new.restart and (new.key, new.pattern, new.outputs, new.forget_after, new.evidence_max, new.active, new.allow_feedback)
            is not distinct from (old.key, old.pattern, old.outputs, old.forget_after, old.evidence_max, old.active,
                old.allow_feedback) then
            return new;
        end if;
    end if;
    new.topic_id := headrace.topic_id(new.topic, new.namespace);
    perform headrace.check_outputs(new.namespace, new.outputs);
    perform headrace.check_output_names(new.namespace, new.outputs);
    new.version := case when tg_op = 'INSERT' then 1 else old.version + 1 end;
    new.status := 'pending';
    new.error := null;
    new.since_position := null;
    return new;
end
$$;

-- The reserved consumer of a correlator, from the head of the log on. Locks nothing: two at once are one. Always true.
create or replace function headrace.watch_correlator(p_topic_id integer, p_correlator text) returns boolean
language plpgsql volatile
as $$
declare
    v_consumer_id integer;
begin
    insert into headrace.consumer (topic_id, consumer, ordered_by) values (p_topic_id, 'headrace.correlator.' || p_correlator, 'topic')
    on conflict on constraint consumer_name_unique do nothing
    returning consumer_id into v_consumer_id;
    if v_consumer_id is not null then
        insert into headrace.cursor (consumer_id, partition, position)
        select v_consumer_id, -1, coalesce((select h.position from headrace.log_head(p_topic_id) h), t.dropped_to)
        from headrace.topic t where t.topic_id = p_topic_id;
    end if;
    return true;
end
$$;

-- After a correlator was written: keeps the new version and calls the compilers. A deleted one ends at once, with its consumer: it
-- waits for a batch that runs. A correlator that goes with its topic leaves nothing behind.
create or replace function headrace.correlator_changed() returns trigger
language plpgsql volatile
as $$
begin
    if tg_op = 'DELETE' then
        update headrace.correlator_version v set until_at = headrace.clock(), until_position = (
            select u.position from headrace.consumer c join headrace.cursor u on u.consumer_id = c.consumer_id
            where c.topic_id = old.topic_id and c.consumer = 'headrace.correlator.' || old.correlator)
        where v.correlator_id = old.correlator_id and v.since_position is not null and v.until_at is null;
        delete from headrace.consumer c where c.topic_id = old.topic_id and c.consumer = 'headrace.correlator.' || old.correlator;
        insert into headrace.correlator_version (correlator_id, version, namespace, correlator, topic_id, key, pattern, outputs,
            forget_after, evidence_max, active, allow_feedback, restart, dropped)
        select old.correlator_id, old.version + 1, old.namespace, old.correlator, old.topic_id, old.key, old.pattern, old.outputs,
            old.forget_after, old.evidence_max, false, old.allow_feedback, false, true
        from headrace.topic t where t.topic_id = old.topic_id;
    else
        insert into headrace.correlator_version (correlator_id, version, namespace, correlator, topic_id, key, pattern, outputs,
            forget_after, evidence_max, active, allow_feedback, restart)
        select new.correlator_id, new.version, new.namespace, new.correlator, new.topic_id, new.key, new.pattern, new.outputs,
            new.forget_after, new.evidence_max, new.active, new.allow_feedback, new.restart
        where not exists (select from headrace.correlator_version v
            where v.correlator_id = new.correlator_id and v.version = new.version);
        if not found then
            return null;
        end if;
        if new.active then
            perform headrace.watch_correlator(new.topic_id, new.correlator);
        end if;
        if new.restart then
            update headrace.correlator c set restart = false where c.correlator_id = new.correlator_id;
        end if;
    end if;
    perform pg_notify('headrace_rule', '');
    return null;
end
$$;

create or replace trigger correlator_written before insert or update on headrace.correlator
for each row execute function headrace.correlator_written();
create or replace trigger correlator_changed after insert or update or delete on headrace.correlator
for each row execute function headrace.correlator_changed();
