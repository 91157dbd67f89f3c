-- Deletes keys that had no event for their correlator's forget_after. A call checks p_max keys of each correlator and continues
-- where the last call ended, in a circle. Returns the number of deleted keys.
-- No index leads to the old ones: seen_at changes with every batch of a key, so an index on it would cost each of these updates
-- its place on the page (HOT) and an entry in every index. Index: correlator_instance_pkey, whatever the statistics say.
-- Locks: the rows of correlator_table, no key update, skip locked (another node is doing the same); and, only if there is a key to
-- delete, the cursor row, no key update, skip locked: a correlator with a running batch is left for the next call.
create or replace function headrace_internal.forget_instances(p_max integer default 100000) returns bigint
language plpgsql volatile
security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set jit = off
as $$
declare
    v_correlator record;
    v_before     timestamptz;
    v_keys       record;
    v_forgotten  bigint := 0;
    v_count      bigint;
begin
    for v_correlator in
        select t.correlator_id, t.consumer_id, t.forget_from, v.topic_id, v.forget_after
        from headrace_internal.correlator_table t
        join headrace_internal.correlator_version v on v.version_id = t.version_id
        where v.forget_after is not null
        order by t.correlator_id
        for no key update of t skip locked
    loop
        v_before := headrace.log_clock(v_correlator.topic_id) - v_correlator.forget_after;
        -- One more key: the next call starts there.
        select array_agg(o.ctid) filter (where o.seen_at < v_before) as old, case when count(*) > p_max then max(o.key) else '' end as next
        into v_keys
        from (
            select i.ctid, i.key, i.seen_at from headrace_internal.correlator_instance i
            where i.correlator_id = v_correlator.correlator_id and i.key >= v_correlator.forget_from
            order by i.key limit p_max + 1
        ) o;
        if v_keys.old is not null then
            perform from headrace_internal.cursor u
            where u.consumer_id = v_correlator.consumer_id and u.partition = -1 for no key update skip locked;
            continue when not found;
            -- By ctid: a row updated meanwhile has a new ctid and is skipped.
            delete from headrace_internal.correlator_instance i where i.ctid = any (v_keys.old) and i.seen_at < v_before;
            get diagnostics v_count = row_count;
            v_forgotten := v_forgotten + v_count;
        end if;
        update headrace_internal.correlator_table t set forget_from = v_keys.next
        where t.correlator_id = v_correlator.correlator_id and t.forget_from <> v_keys.next;
    end loop;
    return v_forgotten;
end
$$;
