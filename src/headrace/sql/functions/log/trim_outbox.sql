-- Truncates outbox slots that are over and drained, and returns how many. Rows of dropped topics go with them.
-- Locks: access exclusive on a slot nobody writes to any more, without waiting: a slot in use is left for later.
-- A writer's open transaction holds its slot, so nothing uncommitted can be cut off.
create or replace function headrace.trim_outbox() returns integer
language plpgsql volatile
as $$
declare
    v_now     smallint := headrace.outbox_slot();
    v_slot    record;
    v_rows    boolean;
    v_trimmed integer := 0;
begin
    for v_slot in
        select s.slot, format('headrace.%I', 'outbox_' || s.slot) as name
        from generate_series(0, 7) s (slot)
        -- The next slot is left alone too: its time may come while we look.
        where s.slot not in (v_now, (v_now + 1) % 8)
    loop
        continue when pg_relation_size(v_slot.name::regclass) = 0;
        begin
            execute format('lock table %s in access exclusive mode nowait', v_slot.name);
            execute format('delete from %s o where not exists '
                '(select from headrace.topic t where t.topic_id = o.topic_id)', v_slot.name);
            execute format('select exists (select from %s)', v_slot.name) into v_rows;
            if not v_rows then
                execute format('truncate %s', v_slot.name);
                v_trimmed := v_trimmed + 1;
            end if;
        exception when lock_not_available then
            null;
        end;
    end loop;
    return v_trimmed;
end
$$;
