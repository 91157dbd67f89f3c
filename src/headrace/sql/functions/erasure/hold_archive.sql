-- Keeps archivers away from a topic until the end of the transaction. Raises HR250 while another session archives it: it may have read
-- what is about to be erased. Locks: the lock's row.
create or replace function headrace_internal.hold_archive(p_topic_id integer) returns void
language plpgsql volatile
as $$
declare
    v_name text := format('archive %s', p_topic_id);
begin
    perform headrace_internal.take_lock(v_name);
    if exists (
        select from headrace_internal.lock l join pg_stat_activity a on a.pid = l.pid and a.usename = l.role
        where l.name = v_name and a.pid <> pg_backend_pid() and a.datname = current_database()) then
        raise exception 'the topic is being archived by another process'
            using errcode = 'HR250', hint = 'Wait until it has finished.';
    end if;
end
$$;
