-- Takes a topic for this session and one purpose ('archive' or 'pipeline'), unless another session holds it; never waits for one.
-- Returns whether it is held now. The lock ends with the session: one whose holder is gone is free. Takes the level admin.
-- Locks: the lock's row for a moment.
create or replace function headrace.try_lock_topic(
    p_topic_id integer, p_purpose text, p_caller headrace_internal.caller default current_user
) returns boolean
language plpgsql volatile
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_name text := format('%s %s', p_purpose, p_topic_id);
begin
    perform headrace_internal.authorize_id(p_caller, 'admin', 'topic', p_topic_id);
    if p_purpose is null or p_purpose not in ('archive', 'pipeline') then
        raise exception 'a topic cannot be locked for %', coalesce(quote_literal(p_purpose), 'null')
            using errcode = 'HR300', hint = 'Choose archive or pipeline.';
    end if;
    insert into headrace_internal.lock (name) values (v_name) on conflict on constraint lock_pkey do nothing;
    update headrace_internal.lock l set pid = pg_backend_pid(), role = p_caller
    where l.name = v_name and not exists (
        select from pg_stat_activity a
        where a.pid = l.pid and a.pid <> pg_backend_pid() and a.usename = l.role and a.datname = current_database());
    return found;
end
$$;
