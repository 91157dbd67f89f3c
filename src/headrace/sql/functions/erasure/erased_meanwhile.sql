-- Looks whether events of a topic were erased while a handler had them: what it says of them may quote them. is_gone: the last of them
-- was erased as a whole. is_quoted: one of them was erased, or lost fields within the last hour. p_position null: only the last one.
-- Locks: the events, for share, nowait: an erasure that is under way raises 55P03, so try again later; one that comes waits for this
-- transaction, and finds what it writes. Indexes: log_partition, log_position. It names the topic's own branch of the log.
create or replace function headrace_internal.erased_meanwhile(
    p_topic_id integer, p_partition integer, p_position bigint, p_upto bigint, out is_gone boolean, out is_quoted boolean
)
language plpgsql volatile
set enable_seqscan = off
set jit = off
as $$
begin
    execute format($sql$
        select coalesce(bool_or(e.position = $3 and e.headers ? 'headrace-erased'), false),
            coalesce(bool_or(e.headers ? 'headrace-erased' or exists (select from headrace_internal.erasure r
                where r.erasure_id::text = e.headers ->> 'headrace-redacted' and r.erased_at > headrace.clock() - interval '1 hour')), false)
        from (select l.position, l.headers from headrace_internal.%I l where %s for share nowait) e
        $sql$, 'log_' || p_topic_id, case when p_position is null then 'l.position = $3'
            when p_partition < 0 then 'l.position > $2 and l.position <= $3'
            else 'l.partition = $1 and l.position > $2 and l.position <= $3' end)
    into is_gone, is_quoted using p_partition, p_position, p_upto;
end
$$;
