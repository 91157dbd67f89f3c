-- After a correlator was written: records the new version and notifies the compilers. A deleted correlator ends at once, together
-- with its consumer, after a running batch. A correlator that is dropped with its topic leaves no version. Runs as the owner.
create or replace function headrace_internal.correlator_changed() returns trigger
language plpgsql volatile
security definer
set search_path = pg_catalog, pg_temp
as $$
begin
    if tg_op = 'DELETE' then
        update headrace_internal.correlator_version v set until_at = headrace.clock(), until_position = (
            select u.position from headrace_internal.consumer c join headrace_internal.cursor u on u.consumer_id = c.consumer_id
            where c.topic_id = old.topic_id and c.consumer = 'headrace.correlator.' || old.correlator)
        where v.correlator_id = old.correlator_id and v.since_position is not null and v.until_at is null;
        delete from headrace_internal.consumer c where c.topic_id = old.topic_id and c.consumer = 'headrace.correlator.' || old.correlator;
        insert into headrace_internal.correlator_version (correlator_id, version, namespace, correlator, topic_id, key, pattern, outputs,
            forget_after, evidence_max, active, allow_feedback, restart, dropped)
        select old.correlator_id, old.version + 1, old.namespace, old.correlator, old.topic_id, old.key, old.pattern, old.outputs,
            old.forget_after, old.evidence_max, false, old.allow_feedback, false, true
        from headrace_internal.topic t where t.topic_id = old.topic_id;
    else
        insert into headrace_internal.correlator_version (correlator_id, version, namespace, correlator, topic_id, key, pattern, outputs,
            forget_after, evidence_max, active, allow_feedback, restart)
        select new.correlator_id, new.version, new.namespace, new.correlator, new.topic_id, new.key, new.pattern, new.outputs,
            new.forget_after, new.evidence_max, new.active, new.allow_feedback, new.restart
        where not exists (select from headrace_internal.correlator_version v
            where v.correlator_id = new.correlator_id and v.version = new.version);
        if not found then
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
