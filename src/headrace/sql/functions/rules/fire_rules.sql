-- Fires rules that another engine has matched: version p_version_ids[i] on the event at p_positions[i], in order, in the
-- transaction that also moves the rules' cursor. Returns the number of firings. Index: log_position.
-- It names the topic's own branch: by the whole log it would be planned for, and lock, every topic. Runs as the owner: a node has no
-- right on a branch.
create or replace function headrace_internal.fire_rules(p_topic_id integer, p_version_ids bigint[], p_positions bigint[]) returns bigint
language plpgsql volatile
security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set jit = off
as $$
declare
    v_hits    headrace_internal.rule_hit[];
    v_firings bigint := 0;
begin
    -- In pieces: an array ends at 1 GB, and a payload may have 1 MB.
    for v_hits in execute format($statement$
        select array_agg(h.hit order by h.n)
        from (
            select row(h.version_id, h.position, l.event_id, l.type, l.key, l.payload, l.emitted_at, l.producer,
                headrace_internal.trace_headers(l.headers))::headrace_internal.rule_hit as hit,
                h.n, sum(pg_column_size(l.payload)) over (order by h.n rows unbounded preceding) as bytes
            from unnest($1, $2) with ordinality h (version_id, position, n)
            cross join lateral (
                select l.event_id, l.type, l.key, l.payload, l.emitted_at, l.producer, l.headers
                from headrace_internal.%I l where l.position = h.position limit 1
            ) l
        ) h
        group by h.n / 1000, h.bytes / 16000000
        order by min(h.n)
        $statement$, 'log_' || p_topic_id) using p_version_ids, p_positions
    loop
        v_firings := v_firings + headrace_internal.fire(p_topic_id, v_hits);
    end loop;
    return v_firings;
end
$$;
