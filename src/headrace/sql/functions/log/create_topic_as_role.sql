-- headrace.create_topic, with the owner's rights: checks the caller's level, then inserts the topic; the trigger
-- headrace_internal.topic_created creates its branch of the log.
-- Locks nothing that others need. It waits at most 2 s for a transaction that creates a topic of the same name or drops the namespace,
-- and raises HR207 then.
create or replace function headrace.create_topic_as_role(
    p_topic          text,
    p_partitions     integer,
    p_retention      interval,
    p_time_partition text,
    p_namespace      text,
    p_clock          text,
    p_caller         headrace_internal.caller default current_user
) returns integer
language plpgsql volatile
security definer
set search_path = pg_catalog, pg_temp
set lock_timeout = '2s'
as $$
declare
    v_namespace text := headrace_internal.authorize(p_caller, 'admin', p_namespace);
    v_topic_id  integer;
begin
    perform headrace_internal.refuse_reserved_topic(p_topic, p_caller);
    perform headrace_internal.check_retention(p_retention);
    -- Not inserted if it is there: an insert on conflict uses up an id, and ids are integers.
    insert into headrace_internal.topic (namespace, topic, partitions, retention, time_partition, clock)
    select v_namespace, p_topic, p_partitions, p_retention, p_time_partition, p_clock
    where not exists (select from headrace_internal.topic t where t.namespace = v_namespace and t.topic = p_topic)
    on conflict on constraint topic_name_unique do nothing
    returning topic_id into v_topic_id;
    if v_topic_id is null then
        raise exception 'topic "%" already exists in namespace "%"', p_topic, v_namespace
            using errcode = 'HR201', hint = 'Change it with headrace.alter_topic, or choose another name.';
    end if;
    return v_topic_id;
exception when lock_not_available then
    raise exception 'topic "%" is not created: another transaction has been creating a topic of that name, or dropping its namespace, for more than 2 s', p_topic
        using errcode = 'HR207', hint = 'Try again when it has ended.';
end
$$;
