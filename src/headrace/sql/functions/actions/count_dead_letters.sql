-- The open dead letters of a namespace, counted by what they have in common: of actions the name, of events topic and consumer; reason
-- and error group. Of each group up to p_counted letters are counted, fewer if there are many groups; `is_more` says that there are
-- more. At most p_groups groups of each kind are returned. So a call costs the same however many dead letters there are.
-- The groups are found one after the other: each is the first in the index after the one before.
-- Locks nothing. Indexes: q_<queue>_group, dead_letter_group.
create or replace function headrace.count_dead_letters(
    p_counted   integer default 10000,
    p_groups    integer default 200,
    p_namespace text default null,
    p_caller    headrace_internal.caller default current_user
) returns table (
    kind text, source text, name text, reason text, error_group text, dead bigint, marked bigint, is_more boolean, first_at timestamptz,
    last_at timestamptz)
language plpgsql stable
security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set jit = off
as $$
declare
    v_namespace text := headrace_internal.authorize(p_caller, 'consume', p_namespace);
    -- The counts of all groups read 100 000 letters at most.
    v_total     constant integer := 100000;
begin
    return query execute format($sql$
        with recursive letter_group as (
            (select headrace_internal.dead_letter_group(d.message) as parts from pgmq.%1$I d
            order by headrace_internal.dead_letter_group(d.message) limit 1)
            union all
            select n.parts
            from letter_group g
            cross join lateral (
                select headrace_internal.dead_letter_group(d.message) as parts from pgmq.%1$I d
                where headrace_internal.dead_letter_group(d.message) > g.parts
                order by headrace_internal.dead_letter_group(d.message) limit 1) n
        ), chosen as materialized (
            select g.parts from letter_group g limit $1
        ), bound as materialized (
            select least($2, greatest(100, $3 / greatest(count(*), 1))) as letters from chosen
        )
        select 'action', 'queue', nullif(g.parts[1], ''), g.parts[2], nullif(g.parts[3], ''), least(c.letters, b.letters), 0::bigint,
            c.letters > b.letters, f.buried_at, l.buried_at
        from chosen g
        cross join bound b
        cross join lateral (
            select count(*) as letters from (
                select from pgmq.%1$I d where headrace_internal.dead_letter_group(d.message) = g.parts limit b.letters + 1) d) c
        cross join lateral (
            select (d.message ->> 'buried_at')::timestamptz as buried_at from pgmq.%1$I d
            where headrace_internal.dead_letter_group(d.message) = g.parts
            order by headrace_internal.dead_letter_group(d.message), d.msg_id limit 1) f
        cross join lateral (
            select (d.message ->> 'buried_at')::timestamptz as buried_at from pgmq.%1$I d
            where headrace_internal.dead_letter_group(d.message) = g.parts
            order by headrace_internal.dead_letter_group(d.message) desc, d.msg_id desc limit 1) l
        $sql$, 'q_' || headrace_internal.dead_letter_queue(headrace_internal.queue_of(v_namespace)))
    using p_groups, p_counted, v_total;
    return query
    with recursive letter_group as (
        select c.consumer_id, t.topic || '/' || c.consumer as source, f.reason, f.error_group
        from headrace_internal.topic t
        join headrace_internal.consumer c on c.topic_id = t.topic_id
        cross join lateral (
            select d.reason, coalesce(headrace_internal.error_group(d.error), '') as error_group from headrace_internal.dead_letter d
            where d.consumer_id = c.consumer_id and d.state in ('dead', 'behind', 'redrive')
            order by d.reason, coalesce(headrace_internal.error_group(d.error), '') limit 1) f
        where t.namespace = v_namespace
        union all
        select g.consumer_id, g.source, n.reason, n.error_group
        from letter_group g
        cross join lateral (
            select d.reason, coalesce(headrace_internal.error_group(d.error), '') as error_group from headrace_internal.dead_letter d
            where d.consumer_id = g.consumer_id and d.state in ('dead', 'behind', 'redrive')
                and (d.reason, coalesce(headrace_internal.error_group(d.error), '')) > (g.reason, g.error_group)
            order by d.reason, coalesce(headrace_internal.error_group(d.error), '') limit 1) n
    ), chosen as materialized (
        select g.consumer_id, g.source, g.reason, g.error_group from letter_group g limit p_groups
    ), bound as materialized (
        select least(p_counted, greatest(100, v_total / greatest(count(*), 1))) as letters from chosen
    )
    select 'event', g.source, null, g.reason, nullif(g.error_group, ''), least(c.dead, b.letters), c.marked, c.letters > b.letters,
        f.buried_at, l.buried_at
    from chosen g
    cross join bound b
    cross join lateral (
        select count(*) as letters, count(*) filter (where d.state <> 'redrive') as dead, count(*) filter (where d.state = 'redrive') as marked
        from (
            select d.state from headrace_internal.dead_letter d
            where d.consumer_id = g.consumer_id and d.state in ('dead', 'behind', 'redrive') and d.reason = g.reason
                and coalesce(headrace_internal.error_group(d.error), '') = g.error_group
            limit b.letters + 1) d) c
    cross join lateral (
        select d.buried_at from headrace_internal.dead_letter d
        where d.consumer_id = g.consumer_id and d.state in ('dead', 'behind', 'redrive') and d.reason = g.reason
            and coalesce(headrace_internal.error_group(d.error), '') = g.error_group
        order by d.reason, coalesce(headrace_internal.error_group(d.error), ''), d.position limit 1) f
    cross join lateral (
        select d.buried_at from headrace_internal.dead_letter d
        where d.consumer_id = g.consumer_id and d.state in ('dead', 'behind', 'redrive') and d.reason = g.reason
            and coalesce(headrace_internal.error_group(d.error), '') = g.error_group
        order by d.reason desc, coalesce(headrace_internal.error_group(d.error), '') desc, d.position desc limit 1) l;
end
$$;
