-- The functions a level may call ('any': every level). All others are the owner's: sequencing, maintenance, planning, grants.
-- Names of functions that are not there (another version) are passed over.
create or replace function headrace.level_functions(p_level text) returns setof text
language sql immutable
as $$
    select f.name from (values
        ('any', '{clock,current_namespace,uuid_v7,key_hash,json_depth,json_number_too_big,event_within_limits,time_within_limits,clamp_time,outbox_slot,
            granted,granted_topics,topic_id,raise_unknown_topic,wake_sequencer,wake_topics,queue_name,wake_queue,uuid_or_null}'::text[]),
        ('publish', '{publish,publish_many,check_events,copy_route,publish_cloudevent,cloudevent_id,check_cloudevent,
            captured_event,captured_columns,send_action,send_actions,
            commit_spark_batch,publish_stage}'),
        ('consume', '{log_clock,log_head,is_archived,archived_from,next_position,consumer_id,create_consumer,drop_consumer,consumer_bound,claim,advance,fail,bury,hold_back,
            claim_redrive,end_redrive,redrive,discard,seek,seek_position,resume,
            schedule_id,next_ticks,unknown_outputs,
            register_node,deregister_node,heartbeat,ack_actions,extend_actions,release_actions,fail_action,bury_actions,
            bury_unhandled,queue_state,rest_queue,action_dead_letters,group_dead_letters,error_group,edit_dead_letter,
            redrive_actions,purge_dead_letters,send_action,send_actions}'),
        ('admin', '{create_topic,alter_topic,drop_topic,set_engine,add_branch,drop_branch,
            capture,capture_rows,release_capture,table_columns,capture_key,capture_columns_exist,make_capture_trigger,drop_capture_triggers,
            create_schedule,alter_schedule,pause_schedule,resume_schedule,drop_schedule,run_schedule,run_schedule_now,
            publish_tick,schedule_event_id,schedule_headers,plan_schedule,check_cron,cron_field_valid,check_zone,
            keep_until_archived,record_archive,time_partitions,
            check_names,watch_topic,end_rules,check_outputs,check_output_names,watch_correlator}')
    ) l (level, names)
    cross join unnest(l.names) f (name)
    where p_level = 'admin' or l.level in (p_level, 'any')
$$;

-- What a level may do on which tables, before row-level security says on which rows. Column lists where a whole table would
-- be too much: a publisher gets back the ids of its events but does not read the outbox; where a log begins is not an admin's to say.
create or replace function headrace.level_tables(p_level text) returns table (privileges text, relation text)
language sql immutable
as $$
    select p.privilege || case
        when p.relation = 'outbox' and p.privilege = 'select' and p_level <> 'admin' then ' (event_id, topic_id)'
        when p.relation = 'topic' and p.privilege = 'update' then ' (partitions, retention, engine, archive)' else '' end, p.relation
    from (
        select 'select' as privilege, g.relation, g.read_level as level from headrace.guarded() g
        union all select 'insert', g.relation, g.insert_level from headrace.guarded() g
        union all select 'update', g.relation, g.update_level from headrace.guarded() g
        union all select 'delete', g.relation, g.delete_level from headrace.guarded() g
    ) p
    where p.level in (p_level, 'any') or (p_level = 'admin' and p.level is not null)
    union all
    select 'select', 'namespace_grant'
    union all
    -- Locking a row takes the right to update some column of it.
    select 'update (created_at)', 'topic' where p_level = 'consume'
    union all
    select 'select', v.relation
    from unnest('{consumer_lag,rule_state,event_history,event_unmatched,correlator_state,correlation_history,node_state,pipeline_state}'::text[]) v (relation)
    where p_level in ('consume', 'admin')
$$;

-- Gives a role exactly the privileges its grants call for, and takes all others of ours away.
create or replace function headrace.apply_grants(p_role regrole) returns void
language plpgsql volatile
as $$
declare
    v_statement text;
begin
    for v_statement in
        select format('revoke all on %s from %s', c.oid::regclass, p_role)
        from pg_class c
        where c.relnamespace = 'headrace'::regnamespace and c.relkind in ('r', 'p', 'v', 'S') and not c.relispartition
        union all
        select format('revoke all on %s from %s', q.queue_table, p_role)
        from headrace.namespace n cross join lateral headrace.queue_tables(n.namespace) q (queue_table)
    loop
        execute v_statement;
    end loop;
    execute format('revoke all on all functions in schema headrace from %s', p_role);
    execute format('revoke all on schema headrace from %s', p_role);
    for v_statement in
        select format('grant usage on schema headrace to %s', p_role)
        from headrace.namespace_grant g where g.role = p_role
        union
        select format('grant usage on sequence headrace.outbox_id_seq to %s', p_role)
        from headrace.namespace_grant g where g.role = p_role and g.level in ('publish', 'admin')
        union
        select format('grant %s on headrace.%I to %s', t.privileges, t.relation, p_role)
        from headrace.namespace_grant g cross join lateral headrace.level_tables(g.level) t
        where g.role = p_role and to_regclass(format('headrace.%I', t.relation)) is not null
        union
        select format('grant execute on function %s to %s', f.oid::regprocedure, p_role)
        from headrace.namespace_grant g
        cross join lateral headrace.level_functions(g.level) n (name)
        join pg_proc f on f.pronamespace = 'headrace'::regnamespace and f.proname = n.name
        where g.role = p_role
        union
        select format('grant %s on %s to %s',
            case g.level when 'publish' then 'insert, select (msg_id)' else 'select, insert, update, delete' end, q.queue_table, p_role)
        from headrace.namespace_grant g cross join lateral headrace.queue_tables(g.namespace) q (queue_table)
        where g.role = p_role and (g.level <> 'publish' or q.queue_table::text !~ '(\ma_|_dlq$)')
        union
        select format('grant usage on schema pgmq to %s', p_role)
        from headrace.namespace_grant g cross join lateral headrace.queue_tables(g.namespace) q
        where g.role = p_role
    loop
        execute v_statement;
    end loop;
end
$$;
