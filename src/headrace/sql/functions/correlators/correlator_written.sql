-- Before a correlator is written: finds its topic (HR101), checks its outputs, and counts a change of its definition as a new version.
-- Name and topic stay: another topic is another correlator.
create or replace function headrace_internal.correlator_written() returns trigger
language plpgsql volatile
security definer
set search_path = pg_catalog, pg_temp
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
            new.topic_id := old.topic_id;
            return new;
        end if;
    end if;
    new.topic_id := headrace.topic_id(new.topic, new.namespace);
    perform headrace_internal.check_outputs(new.namespace, new.outputs);
    -- Only nodes parse patterns; but a token that the text does not contain cannot be pushed.
    perform headrace_internal.check_output_tokens(new.pattern, new.outputs);
    perform headrace_internal.check_names(new.namespace,
        format('namespace "%s": ', new.namespace) || headrace_internal.unknown_outputs(new.namespace, new.outputs), 'correlator');
    new.version := case when tg_op = 'INSERT' then 1 else old.version + 1 end;
    new.status := 'pending';
    new.error := null;
    new.since_position := null;
    return new;
end
$$;

create or replace trigger correlator_written before insert or update on headrace_internal.correlator
for each row execute function headrace_internal.correlator_written();
