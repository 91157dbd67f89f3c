-- Moves the instances of a correlator to a new table: units p_old[i] become p_new[i], and new timer j continues old timer
-- p_timers[j] (from 0; null: it does not run). All other instances are deleted and start again with their next event.
create or replace function headrace_internal.carry_instances(p_correlator_id integer, p_old text[], p_new text[], p_timers integer[])
returns table (carried bigint, restarted bigint)
language plpgsql volatile
security definer
set search_path = pg_catalog, pg_temp
as $$
begin
    select count(*) into restarted from headrace_internal.correlator_instance i where i.correlator_id = p_correlator_id;
    delete from headrace_internal.correlator_instance i
    where i.correlator_id = p_correlator_id and i.units <> all (select o.units::integer[] from unnest(p_old) o (units));
    update headrace_internal.correlator_instance i
    set units = m.new_units::integer[], deadlines = coalesce((
        select array_agg(i.deadlines[t.timer + 1] order by t.place) from unnest(p_timers) with ordinality t (timer, place)), '{}')
    from unnest(p_old, p_new) m (old_units, new_units)
    where i.correlator_id = p_correlator_id and i.units = m.old_units::integer[];
    get diagnostics carried = row_count;
    restarted := restarted - carried;
    return next;
end
$$;
