-- Metric headrace_dead_letters: open dead letters of each namespace, by kind (action, event) and reason. The first 1 000 of each kind are
-- counted by their reason. If there are more: of actions the number is scaled by what the statistics of the table say; of events it
-- stays at 1 000.
-- p_prepare: by a prepared statement of the session, which spares its planning; see headrace_internal.metrics_of_log.
-- Indexes: dead_letter_held; the primary key of the queue of dead letters.
create or replace function headrace_internal.metrics_of_dead_letters(p_namespaces text[], p_prepare boolean)
returns table (metric text, labels text[], value double precision)
language plpgsql volatile
set enable_seqscan = off
set enable_bitmapscan = off
set jit = off
as $$
declare
    v_namespace text;
    v_queue     regclass;
    v_query     text;
begin
    foreach v_namespace in array p_namespaces loop
        v_queue := format('pgmq.%I', 'q_' || headrace_internal.dead_letter_queue(headrace_internal.queue_of(v_namespace)))::regclass;
        v_query := format($sql$
            with letters as (
                select coalesce(left(d.message ->> 'reason', 100), '') as reason from (
                    select d.message from %s d order by d.msg_id limit 1000) d
            ), total as (
                select count(*) as letters from letters
            )
            select 'headrace_dead_letters', array[%L, 'action', l.reason], (count(*)
                * case when t.letters = 1000 then greatest(pg_stat_get_live_tuples(%s), 1000) / 1000.0 else 1 end)::double precision
            from letters l cross join total t
            group by l.reason, t.letters
            $sql$, v_queue, v_namespace, v_queue::oid);
        if p_prepare then
            begin
                return query execute 'execute headrace_metrics_letters_' || v_queue::oid;
            exception
                -- Not prepared in this session yet (a syntax error on PostgreSQL 15).
                when invalid_sql_statement_name or syntax_error then
                    execute 'prepare headrace_metrics_letters_' || v_queue::oid || ' as ' || v_query;
                    return query execute 'execute headrace_metrics_letters_' || v_queue::oid;
            end;
        else
            return query execute v_query;
        end if;
        return query
        select 'headrace_dead_letters', array[v_namespace, 'event', left(d.reason, 100)], count(*)::double precision
        from (
            select d.reason
            from headrace_internal.topic t
            join headrace_internal.consumer c on c.topic_id = t.topic_id
            cross join lateral (
                select d.reason from headrace_internal.dead_letter d
                where d.consumer_id = c.consumer_id and d.state in ('dead', 'behind', 'redrive')
                order by d.consumer_id, d.key limit 1000) d
            where t.namespace = v_namespace
            limit 1000
        ) d
        group by left(d.reason, 100);
    end loop;
end
$$;
