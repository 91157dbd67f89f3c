-- Returns the functions a level may call ('any': every level). All others are the owner's: sequencing, maintenance, planning, grants.
-- In schema headrace_internal, a role may run only the functions that views and triggers call, and it can name none of them.
-- Calls: level_includes.
create or replace function headrace_internal.level_functions(p_level text) returns setof text
language sql immutable
as $$
    select f.name from (values
        ('any', '{clock,current_namespace,schema_release,log_epoch,uuid_v7,topic_id,queue_name,wake_queue,send_action,send_actions,is_paused,copy_route,
            event_within_limits,time_within_limits,json_depth,json_number_too_big,caller_is_owner,level_includes,
            readable_definitions,find_access_token,touch_access_tokens}'::text[]),
        ('publish', '{publish,publish_many,publish_cloudevent,publish_rows,stage_rows,drop_staged_rows,
            commit_spark_batch,wake_sequencer,outbox_slot,admit_event,publish_once,find_hook}'),
        ('consume', '{log_head,log_clock,read_log,find_event,is_archived,archived_from,
            create_consumer,drop_consumer,due_consumers,claim,claim_at,claim_events,advance,advance_partitions,fail,release_claims,hold_back,claim_redrive,redriven_event,end_redrive,redrive,discard,edit_dead_event,skip_event,seek,
            seek_position,resume,schedule_id,next_ticks,report_relay,queue_state,metrics,cursor_lag,evaluate,unmatched_reason,pause,queued_actions,
            action_dead_letters,count_dead_letters,read_dead_letters,error_group,register_node,register_consumers,deregister_node,heartbeat}'),
        ('work', '{claim_actions,claim_ordered_actions,claim_retried_action,ack_actions,
            extend_actions,release_actions,fail_action,bury_actions,bury_lost_action,bury_unhandled,set_queue_asleep,queue_is_empty,edit_dead_letter,
            redrive_actions,discard_actions,cancel_actions,run_actions_now,set_action_priority,forget_nodes}'),
        ('admin', '{create_topic,create_topic_as_role,alter_topic,drop_topic,set_engine,capture,capture_rows,record_capture,forget_capture,
            drop_capture_triggers,release_capture,plan_schedule,run_schedule,run_schedule_now,keep_until_archived,record_archive,time_partitions,try_lock_topic,write_definition,
            handle_event_type,set_event_schema,alter_event_schema,drop_event_schema,report_findings,create_access_token,revoke_access_token,
            create_hook,alter_hook,drop_hook,erase_key,pending_erasures,erased_texts,end_erasure,end_vacuum}')
    ) l (level, names)
    cross join pg_catalog.unnest(l.names) f (name)
    where headrace_internal.level_includes(p_level, l.level)
$$;

-- What a level may do on the public views; each view shows only rows of the namespaces in which the reader holds the level it takes.
-- Nobody but the owner has a right on a table. Admins hold UPDATE by column and no DELETE: either of them on a whole view would let them
-- lock it in front of every other namespace. A definition is dropped by `set dropped = true`.
-- Calls: definition_columns, level_includes.
create or replace function headrace_internal.level_views(p_level text) returns table (privileges text, relation text)
language sql stable
as $$
    select case v.privileges
            when 'insert, update' then format('insert, update (%s, dropped)', array_to_string(headrace_internal.definition_columns(r.relation), ', '))
            else v.privileges end, r.relation
    from (values
        ('any', 'select', '{namespace,namespace_grant,topic,outbox,event_type,action,event_schema,event_schema_version}'::text[]),
        ('publish', 'select', '{capture}'),
        ('publish', 'insert', '{event_0,event_1,event_2}'),
        ('consume', 'select', '{log,archive,consumer,cursor,event_dead_letter,schedule,schedule_state,schedule_due,schedule_tick,rule,rule_version,firing,
            correlator,correlator_version,correlator_table,correlator_instance,correlation,node,action_result,attempt,pipeline,
            pipeline_batch,consumer_lag,dead_letter,rule_state,event_history,event_unmatched,correlator_state,correlation_history,
            node_state,pipeline_state,stream,stream_output,failure,pause,relay,relay_version,relay_state}'),
        ('admin', 'select', '{access_token,hook,erasure}'),
        ('admin', 'insert, update', '{rule,correlator,relay,schedule,event_type,action}')
    ) v (level, privileges, relations)
    cross join pg_catalog.unnest(v.relations) r (relation)
    where headrace_internal.level_includes(p_level, v.level)
$$;

-- Gives the role of a node what its loops need: every function, and rows of the internal tables. It is not the owner: it cannot
-- create, alter or drop anything, and it cannot grant. What needs the owner's rights is done by functions that run as the owner.
create or replace function headrace_internal.apply_node_grants(p_role regrole) returns void
language plpgsql volatile set search_path = pg_catalog, pg_temp
as $$
begin
    execute format('grant usage on schema headrace, headrace_internal to %s', p_role);
    execute format('grant execute on all functions in schema headrace, headrace_internal to %s', p_role);
    execute format('revoke execute on function headrace.grant_namespace, headrace.revoke_namespace, headrace.grant_node,'
        ' headrace.revoke_node, headrace_internal.apply_grants, headrace_internal.apply_node_grants, headrace_internal.secure from %s', p_role);
    execute format('grant select, insert, update, delete on all tables in schema headrace_internal to %s', p_role);
    execute format('revoke insert, update, delete on headrace_internal.namespace_grant, headrace_internal.node_role,'
        ' headrace_internal.migration from %s', p_role);
    execute format('grant usage on all sequences in schema headrace_internal to %s', p_role);
    execute format('grant select, insert, update, delete on all tables in schema headrace to %s', p_role);
end
$$;

-- Gives a role exactly the privileges its grants call for, and revokes all others of ours. Nobody gets usage on headrace_internal.
-- Calls: queue_tables, level_views, level_functions, level_includes, apply_node_grants.
create or replace function headrace_internal.apply_grants(p_role regrole) returns void
language plpgsql volatile set search_path = pg_catalog, pg_temp
as $$
declare
    v_statement text;
begin
    for v_statement in
        select format('revoke all on %s from %s', c.oid::regclass, p_role)
        from pg_class c
        where c.relnamespace in ('headrace'::regnamespace, 'headrace_internal'::regnamespace)
            and c.relkind in ('r', 'p', 'v', 'S')
            -- A node has rights on the partitions that there were when it got them. Most roles have none on the thousands of a log.
            and (not c.relispartition or exists (select from aclexplode(c.relacl) a where a.grantee = p_role))
        union all
        select format('revoke all on %s from %s', q.queue_table, p_role)
        from headrace_internal.namespace n cross join lateral headrace_internal.queue_tables(n.namespace) q (queue_table)
    loop
        execute v_statement;
    end loop;
    execute format('revoke all on all functions in schema headrace, headrace_internal from %s', p_role);
    execute format('revoke all on schema headrace, headrace_internal from %s', p_role);
    for v_statement in
        select format('grant usage on schema headrace to %s', p_role)
        from headrace_internal.namespace_grant g where g.role = p_role
        union
        select format('grant %s on headrace.%I to %s', t.privileges, t.relation, p_role)
        from headrace_internal.namespace_grant g cross join lateral headrace_internal.level_views(g.level) t
        where g.role = p_role
        union
        -- The views such as headrace.event_0 number their rows by it, with the rights of who inserts. It tells no more than headrace.outbox.
        select format('grant usage on sequence headrace_internal.outbox_id_seq to %s', p_role)
        from headrace_internal.namespace_grant g where g.role = p_role and headrace_internal.level_includes(g.level, 'publish')
        union
        select format('grant execute on function %s to %s', f.oid::regprocedure, p_role)
        from headrace_internal.namespace_grant g
        cross join lateral headrace_internal.level_functions(g.level) n (name)
        join pg_proc f on f.pronamespace in ('headrace'::regnamespace, 'headrace_internal'::regnamespace) and f.proname = n.name
        where g.role = p_role
    loop
        execute v_statement;
    end loop;
    if exists (select from headrace_internal.node_role n where n.role = p_role) then
        perform headrace_internal.apply_node_grants(p_role);
    end if;
end
$$;

-- Brings all rights up to date; the migrator calls it at its end. Nothing is executable by PUBLIC, and roles have exactly what their
-- grants call for: functions and views, never a table.
-- Calls: apply_grants.
create or replace function headrace_internal.secure() returns void
language sql volatile
as $$
    revoke all on schema headrace, headrace_internal from public;
    revoke all on all functions in schema headrace, headrace_internal from public;
    revoke all on all tables in schema headrace, headrace_internal from public;
    select headrace_internal.apply_grants(g.role)
    from (select g.role from headrace_internal.namespace_grant g union select n.role from headrace_internal.node_role n) g
    join pg_roles r on r.oid = g.role;
$$;

-- Returns the role of a name; raises HR132 if it does not exist.
create or replace function headrace_internal.existing_role(p_role text) returns regrole
language plpgsql stable
as $$
declare
    v_role regrole := (select r.oid from pg_roles r where r.rolname = p_role or quote_ident(r.rolname) = p_role limit 1);
begin
    if v_role is null then
        raise exception 'there is no role "%"', p_role
            using errcode = 'HR132', hint = format('Create it: create role %I login.', p_role);
    end if;
    return v_role;
end
$$;

-- Lets a role publish in a namespace, consume in it, or do everything in it ('admin'). Only the owner may call it.
-- Give an application's role one namespace, and make it the default of its sessions: alter role … set headrace.namespace = …
-- Calls: namespace_exists, existing_role, apply_grants.
create or replace function headrace.grant_namespace(p_role text, p_namespace text, p_level text) returns void
language sql volatile set search_path = pg_catalog, pg_temp
as $$
    select headrace_internal.namespace_exists(p_namespace);
    insert into headrace_internal.namespace_grant (role, namespace, level)
    values (headrace_internal.existing_role(p_role), p_namespace, p_level)
    on conflict on constraint namespace_grant_pkey do nothing;
    select headrace_internal.apply_grants(headrace_internal.existing_role(p_role));
$$;

-- Revokes a level in a namespace from a role; all levels if p_level is null.
-- Calls: existing_role, apply_grants.
create or replace function headrace.revoke_namespace(p_role text, p_namespace text, p_level text default null) returns void
language sql volatile set search_path = pg_catalog, pg_temp
as $$
    delete from headrace_internal.namespace_grant g
    where g.role = headrace_internal.existing_role(p_role) and g.namespace = p_namespace and g.level = coalesce(p_level, g.level);
    select headrace_internal.apply_grants(headrace_internal.existing_role(p_role));
$$;

-- Lets a role run the loops of a node for every namespace: sequencer, rules, correlators, schedules, maintenance. It reads and writes
-- the data of all namespaces, but it is neither superuser nor owner. Only the owner may call it.
-- Calls: existing_role, apply_grants.
create or replace function headrace.grant_node(p_role text) returns void
language sql volatile set search_path = pg_catalog, pg_temp
as $$
    insert into headrace_internal.node_role (role) values (headrace_internal.existing_role(p_role))
    on conflict on constraint node_role_pkey do nothing;
    select headrace_internal.apply_grants(headrace_internal.existing_role(p_role));
$$;

-- Takes from a role the right to run the loops of a node; its levels in namespaces stay. Only the owner may call it.
-- Calls: existing_role, apply_grants.
create or replace function headrace.revoke_node(p_role text) returns void
language sql volatile set search_path = pg_catalog, pg_temp
as $$
    delete from headrace_internal.node_role n where n.role = headrace_internal.existing_role(p_role);
    select headrace_internal.apply_grants(headrace_internal.existing_role(p_role));
$$;
