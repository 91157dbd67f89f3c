-- Before a relay is written: finds its topic (HR101), rejects secrets in clear text, and counts a change of its definition as a new
-- version. Name and topic stay: the cursors are those of the topic.
create or replace function headrace_internal.relay_written() returns trigger
language plpgsql volatile
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_option text;
begin
    if tg_op = 'UPDATE' then
        if (new.namespace, new.relay, new.topic) is distinct from (old.namespace, old.relay, old.topic) then
            raise exception 'relay "%" keeps its name and its topic', old.relay
                using errcode = 'HR200', hint = 'Drop it, and create another one.';
        end if;
        if (new.condition, new.target, new.options, new.format, new.mapping, new.attempts, new.backoff_s, new.backoff_max_s,
                new.when_exhausted, new.key_order, new.batch, new.concurrency, new.active)
            is not distinct from (old.condition, old.target, old.options, old.format, old.mapping, old.attempts, old.backoff_s,
                old.backoff_max_s, old.when_exhausted, old.key_order, old.batch, old.concurrency, old.active) then
            new.topic_id := old.topic_id;
            return new;
        end if;
    end if;
    v_option := headrace_internal.option_with_clear_secret(new.options);
    if v_option is not null then
        raise exception 'option "%" of relay "%" has a secret in clear text', v_option, new.relay
            using errcode = 'HR300', hint = 'Refer to it: env:NAME is a variable of the node for this namespace, file:name a file in its folder of secrets.';
    end if;
    new.topic_id := headrace.topic_id(new.topic, new.namespace);
    new.version := case when tg_op = 'INSERT' then 1 else old.version + 1 end;
    new.status := 'pending';
    new.error := null;
    return new;
end
$$;

create or replace trigger relay_written before insert or update on headrace_internal.relay
for each row execute function headrace_internal.relay_written();
