-- The columns of a definition that users write; null for an unknown kind. Admins may update these columns of the public view.
create or replace function headrace_internal.definition_columns(p_kind text) returns text[]
language sql immutable
as $$
    select case p_kind
        when 'rule' then '{namespace,rule,topic,event_type,condition,action,priority,delay_s,timing,active,source}'
        when 'correlator' then '{namespace,correlator,topic,key,pattern,outputs,forget_after,evidence_max,active,allow_feedback,restart,source}'
        when 'relay' then '{namespace,relay,topic,condition,target,options,format,mapping,start,attempts,backoff_s,backoff_max_s,
            when_exhausted,key_order,batch,concurrency,active,source}'
        when 'schedule' then '{namespace,schedule,cron,zone,topic_id,type,payload,key,headers,active,source,missed,missed_max,grace_s}'
        when 'event_type' then '{namespace,event_type,description}'
        when 'action' then '{namespace,action,description}' end::text[]
$$;
