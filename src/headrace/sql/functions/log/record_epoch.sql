-- Records the epoch of the logs when it is new, and returns the one before it; null if nothing changed. Nodes call it.
create or replace function headrace_internal.record_epoch() returns text
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
    v_before text := (select e.epoch from headrace_internal.log_epoch e order by e.number desc limit 1);
    v_epoch  text := headrace.log_epoch();
begin
    if v_epoch is not distinct from v_before then
        return null;
    end if;
    insert into headrace_internal.log_epoch (epoch) values (v_epoch) on conflict on constraint log_epoch_once do nothing;
    return case when found then v_before end;
end
$$;
