-- The functions a level may call ('any': every level). All others are the owner's: sequencing, maintenance, planning, grants.
-- Names of functions that are not there (another version) are passed over.
create or replace function headrace_internal.level_functions(p_level text) returns setof text
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
