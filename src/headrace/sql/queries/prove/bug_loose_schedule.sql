-- Seeded bug: two nodes may record one tick twice, and the ids of its events differ from session to session.
alter table headrace_internal.schedule_tick drop constraint schedule_tick_once;
create or replace function headrace_internal.schedule_event_id(p_uid uuid, p_tick_at timestamptz) returns uuid
language sql volatile
as $$
    select md5(concat_ws(':', p_uid, extract(epoch from p_tick_at), pg_backend_pid()))::uuid
$$;
