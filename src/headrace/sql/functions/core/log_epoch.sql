-- The epoch of all logs of this server: its system identifier and its timeline. A promoted standby and a restore to a point in time
-- begin a new timeline, and only then can positions come again with other events. 'unknown' where the server does not tell.
create or replace function headrace.log_epoch() returns text
language plpgsql stable
security definer
set search_path = pg_catalog, pg_temp
as $$
begin
    return (select s.system_identifier from pg_control_system() s) || ':' || case
        when pg_is_in_recovery() then (select c.timeline_id from pg_control_checkpoint() c)
        -- Of the WAL being written: the checkpoint's timeline may be the old one for a while after a promotion.
        else ('x' || left(pg_walfile_name(pg_current_wal_insert_lsn()), 8))::bit(32)::integer end;
exception when insufficient_privilege or feature_not_supported or undefined_function then
    return 'unknown';
end
$$;
