-- Seeded bug: two nodes may record one tick twice, and the ids of its events differ from session to session. A node that fires a tick
-- waits for the other node to fire it too, for 2 s at most, so that this does not depend on chance.
alter table headrace_internal.schedule_tick drop constraint schedule_tick_once;
create or replace function headrace_internal.schedule_event_id(p_uid uuid, p_tick_at timestamptz) returns uuid
language sql volatile
as $$
    select md5(concat_ws(':', p_uid, extract(epoch from p_tick_at), pg_backend_pid()))::uuid
$$;
create function headrace_prove.wait_for_other_node(p_tick_at timestamptz) returns void
language plpgsql volatile
as $$
declare
    v_tick integer := extract(epoch from p_tick_at)::bigint % 1000000;
begin
    perform pg_advisory_xact_lock_shared(1886547830, v_tick);
    for v_round in 1 .. 40 loop
        exit when 2 <= (select count(*) from pg_locks l
            where l.locktype = 'advisory' and l.classid = 1886547830 and l.objid = v_tick::oid);
        perform pg_sleep(0.05);
    end loop;
end
$$;
