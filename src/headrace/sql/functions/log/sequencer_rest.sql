-- Marks topics as asleep that had no events for p_idle_s seconds, so that their publishers send a NOTIFY again.
-- Returns how soon the sequencer must check again: 'busy' (some topics are awake), 'watch' (a transaction that has published is
-- still open and may have read "awake"), 'poll' (publishers do not notify, see headrace_internal.may_notify), or 'sleep'. A topic
-- that failed and waits for its retry counts as asleep.
-- Locks: topic rows, no key update, skip locked.
-- Indexes: log_position backwards and outbox_order, one probe per topic that is awake, whatever the statistics say.
create or replace function headrace_internal.sequencer_rest(p_idle_s double precision) returns text
language plpgsql volatile
set enable_seqscan = off
set enable_bitmapscan = off
set jit = off
as $$
begin
    update headrace_internal.topic t set asleep = true, asleep_at = statement_timestamp(), asleep_head = q.head
    from (
        select i.topic_id, coalesce(h.position, i.dropped_to) as head
        from headrace_internal.topic i
        cross join lateral headrace_internal.read_head(i.topic_id, i.clock, i.time_partition) h
        where not i.asleep and coalesce(h.appended_at, '-infinity') < headrace.clock() - make_interval(secs => p_idle_s)
            -- Not "not exists": as a join it would read the whole outbox.
            and (select o.id from headrace_internal.outbox o where o.topic_id = i.topic_id order by o.id limit 1) is null
        for no key update of i skip locked
    ) q
    where t.topic_id = q.topic_id;
    if exists (
        select from headrace_internal.topic t
        where not t.asleep and not exists (select from headrace_internal.failure f where f.kind = 'sequence'
            and f.namespace = t.namespace and f.name = t.topic and f.retry_at > headrace.clock() + interval '25 milliseconds')
    ) then
        return 'busy';
    end if;
    if exists (
        select from pg_locks l
        join pg_inherits i on i.inhrelid = l.relation and i.inhparent = 'headrace_internal.outbox'::regclass
        where l.locktype = 'relation' and l.mode = 'RowExclusiveLock' and l.pid <> pg_backend_pid()
            and l.database = (select d.oid from pg_database d where d.datname = current_database())
    ) then
        return 'watch';
    end if;
    return case when headrace_internal.may_notify() then 'sleep' else 'poll' end;
end
$$;
