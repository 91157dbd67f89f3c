-- The functions a level may call ('any': every level). All others are the owner's: sequencing, maintenance, planning, grants.
-- Of schema headrace_internal only those that views and triggers call, which no role can name.
create or replace function headrace_internal.level_functions(p_level text) returns setof text
language sql immutable
as $$
    select f.name from (values
        ('any', '{clock,current_namespace,schema_release,log_epoch,uuid_v7,topic_id,queue_name,wake_queue,send_action,send_actions,is_paused,copy_route,
            event_within_limits,time_within_limits,json_depth,json_number_too_big,caller_is_owner,level_includes,
            readable_event_types,readable_actions,find_access_token,touch_access_tokens}'::text[]),
        ('publish', '{publish,publish_as_role,publish_many,publish_cloudevent,publish_rows,stage_rows,drop_staged_rows,
            commit_spark_batch,wake_sequencer,outbox_slot,payload_fits,publish_once,find_hook}'),
        ('consume', '{log_head,log_clock,read_log,find_event,is_archived,archived_from,
            create_consumer,drop_consumer,due_consumers,claim,claim_events,advance,advance_partitions,fail,release_claims,hold_back,claim_redrive,end_redrive,redrive,discard,edit_dead_event,skip_event,seek,
            seek_position,resume,schedule_id,next_ticks,readable_rules,readable_correlators,readable_relays,readable_schedules,report_relay,queue_state,metrics,cursor_lag,evaluate,unmatched_reason,pause,queued_actions,
            action_dead_letters,group_dead_letters,count_dead_letters,read_dead_letters,error_group,register_node,register_consumers,deregister_node,heartbeat}'),
        ('work', '{claim_actions,claim_ordered_actions,claim_retried_action,ack_actions,
            extend_actions,release_actions,fail_action,bury_actions,bury_lost_action,bury_unhandled,rest_queue,queue_is_empty,edit_dead_letter,
            redrive_actions,discard_actions,cancel_actions,run_actions_now,set_action_priority,forget_nodes}'),
        ('admin', '{create_topic,create_topic_as_role,alter_topic,drop_topic,set_engine,capture,capture_rows,record_capture,forget_capture,
            drop_capture_triggers,release_capture,create_schedule,alter_schedule,pause_schedule,resume_schedule,drop_schedule,
            plan_schedule,run_schedule,run_schedule_now,keep_until_archived,record_archive,time_partitions,try_lock_topic,write_definition,
            register_name,handle_event_type,set_event_schema,alter_event_schema,drop_event_schema,report_findings,create_access_token,revoke_access_token,
            create_hook,alter_hook,drop_hook,erase_key,pending_erasures,erased_texts,end_erasure,end_vacuum}')
    ) l (level, names)
    cross join pg_catalog.unnest(l.names) f (name)
    where headrace_internal.level_includes(p_level, l.level)
$$;
