-- Metrics of queues: headrace_action_queue, the actions of each namespace by state (due, in-flight, retrying, delayed, held; see
-- headrace_internal.action_state), and headrace_action_wait_seconds, how long the oldest due action has been due, 0 if none is.
-- Each state is counted up to 1 000 actions; of the actions that were claimed before, 1 000 are looked at. If more than 1 000 are due,
-- the rest of the queue counts as due, by the statistics of the table.
-- p_prepare: by a prepared statement of the session, which spares its planning; see headrace_internal.metrics_of_log.
-- Indexes: pgmq's on vt, q_<queue>_retried, attempt_action; whatever the statistics of this fast-changing table say.
create or replace function headrace_internal.metrics_of_queues(p_namespaces text[], p_prepare boolean)
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
    v_states    jsonb;
begin
    foreach v_namespace in array p_namespaces loop
        v_queue := format('pgmq.%I', 'q_' || headrace_internal.queue_of(v_namespace))::regclass;
        v_query := format($sql$
            select jsonb_build_object(
                'due', (select count(*) from (
                    select from %1$s q where q.vt <= headrace.clock() order by q.vt limit 1000) q),
                'delayed', (select count(*) from (
                    select from %1$s q
                    where q.vt > headrace.clock() and q.vt <= headrace.clock() + interval '25 years' and q.read_ct = 0
                    order by q.vt limit 1000) q),
                'held', (select count(*) from (
                    select from %1$s q where q.vt > headrace.clock() + interval '25 years' order by q.vt limit 1000) q),
                'oldest', coalesce(date_part('epoch', headrace.clock() - (
                    select q.vt from %1$s q where q.vt <= headrace.clock() order by q.vt limit 1)), 0),
                'in-flight', 0, 'retrying', 0) || coalesce((
                    select jsonb_object_agg(s.state, s.actions)
                    from (
                        select headrace_internal.action_state(%2$L, q.vt, q.read_ct, q.message ->> 'id') as state, count(*) as actions
                        from (
                            select q.vt, q.read_ct, q.message from %1$s q
                            where q.vt > headrace.clock() and q.vt <= headrace.clock() + interval '25 years' and q.read_ct > 0
                            order by q.vt limit 1000) q
                        group by 1) s), '{}')
            $sql$, v_queue, v_namespace);
        if p_prepare then
            begin
                execute 'execute headrace_metrics_queue_' || v_queue::oid into v_states;
            exception
                -- Not prepared in this session yet (a syntax error on PostgreSQL 15).
                when invalid_sql_statement_name or syntax_error then
                    execute 'prepare headrace_metrics_queue_' || v_queue::oid || ' as ' || v_query;
                    execute 'execute headrace_metrics_queue_' || v_queue::oid into v_states;
            end;
        else
            execute v_query into v_states;
        end if;
        metric := 'headrace_action_wait_seconds';
        labels := array[v_namespace];
        value := (v_states ->> 'oldest')::double precision;
        return next;
        v_states := v_states - 'oldest';
        if (v_states ->> 'due')::bigint = 1000 then
            v_states := v_states || jsonb_build_object('due', greatest(1000, pg_stat_get_live_tuples(v_queue) - (
                select sum(s.value::bigint) from jsonb_each_text(v_states) s where s.key <> 'due')));
        end if;
        return query select 'headrace_action_queue', array[v_namespace, s.key], s.value::double precision from jsonb_each_text(v_states) s;
    end loop;
end
$$;
