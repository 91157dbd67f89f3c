-- After topics were dropped: forgets their failed inline evaluations and drops the functions of their inline rules; their programs go
-- with the topic. Runs as the owner.
create or replace function headrace_internal.topic_dropped() returns trigger
language plpgsql volatile
security definer
set search_path = pg_catalog, pg_temp
as $$
begin
    delete from headrace_internal.inline_failure f using dropped d where f.topic_id = d.topic_id;
    perform headrace_internal.drop_inline(d.topic_id) from dropped d;
    return null;
end
$$;

create or replace trigger topic_dropped after delete on headrace_internal.topic
referencing old table as dropped for each statement execute function headrace_internal.topic_dropped();
