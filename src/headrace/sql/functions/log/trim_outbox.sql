-- Truncates outbox slots that are over and empty, and returns how many. Rows of dropped topics are deleted with them.
-- Runs as the owner: a node's role may not truncate.
-- Locks: access exclusive on an empty slot that nobody writes to, without waiting: a slot in use is left for later, one with
-- waiting events is not locked at all. The open transaction of a writer locks its slot, so nothing uncommitted is truncated, and
-- rows committed before the lock are seen by the check under it. That takes a fresh snapshot per statement: raises HR208 unless
-- READ COMMITTED, where an older one would lose events. Index: outbox_order, whatever the statistics say.
create or replace function headrace_internal.trim_outbox() returns integer
language plpgsql volatile
security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set jit = off
as $$
declare
    v_now     smallint := headrace_internal.outbox_slot(headrace.clock());
    v_slot    record;
    v_waits   text;
    v_found   boolean;
    v_trimmed integer := 0;
begin
    perform headrace_internal.require_read_committed('headrace_internal.trim_outbox');
    for v_slot in
        select s.slot, format('headrace_internal.%I', 'outbox_' || s.slot) as name
        from generate_series(0, 3) s (slot)
        -- The next slot is left alone too: it may become the current one meanwhile.
        where s.slot not in (v_now, (v_now + 1) % 4)
    loop
        -- headrace.clock() stands still within a call, the slots do not: after 4 seconds publishers may write to the next but one.
        -- Locks last until the end of the transaction, which must come before that.
        exit when clock_timestamp() > statement_timestamp() + interval '2 seconds';
        continue when pg_relation_size(v_slot.name::regclass) = 0;
        -- One probe per topic. Not "exists": as a join it could read the whole slot.
        v_waits := format('select true from headrace_internal.topic t where '
            '(select o.id from %s o where o.topic_id = t.topic_id order by o.id limit 1) is not null limit 1', v_slot.name);
        execute v_waits into v_found;
        continue when v_found;
        begin
            execute format('lock table %s in access exclusive mode nowait', v_slot.name);
            execute v_waits into v_found;
            if v_found is null then
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
