-- Returns the columns of a definition that users write; null for an unknown kind. Admins may update these columns of the public view.
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

-- Inserts, updates or deletes one row of a definition: rule, correlator, relay, schedule, event_type or action. Returns the row as it is
-- then. The triggers of the public views call it. Takes the level admin in the namespace of the old and of the new row.
-- Only the columns of headrace_internal.definition_columns are the user's; the rest belongs to headrace and is not written, whatever the row says. A column
-- that is null in a new row gets its default. Locks: the row.
-- Calls: definition_columns.
create or replace function headrace.write_definition(
    p_kind text, p_old jsonb, p_new jsonb, p_caller headrace_internal.caller default current_user
) returns jsonb
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp
as $$
declare
    v_names   text[];
    v_columns text;
    v_values  text;
    v_row     jsonb;
begin
    -- Without an old and a new row there is nothing to write: the level is checked all the same.
    perform headrace_internal.authorize(p_caller, 'admin', coalesce(p_old, p_new) ->> 'namespace');
    v_names := headrace_internal.definition_columns(p_kind);
    if v_names is null then
        raise exception '% is not a kind of definition', coalesce(quote_literal(p_kind), 'null')
            using errcode = 'HR300', hint = 'Choose rule, correlator, relay, schedule, event_type or action.';
    end if;
    if p_old is not null then
        perform headrace_internal.authorize(p_caller, 'admin', coalesce(p_old ->> 'namespace', ''));
    end if;
    if p_new is not null then
        p_new := p_new || jsonb_build_object('namespace', headrace_internal.authorize(p_caller, 'admin', p_new ->> 'namespace'));
    end if;
    select string_agg(format('%I', n.name), ', '), string_agg(format('r.%I', n.name), ', ') into v_columns, v_values
    from unnest(v_names) n (name)
    where p_old is not null or p_new -> n.name <> 'null';
    if p_new is null then
        execute format('delete from headrace_internal.%1$I d where d.namespace = $1 and d.%1$I = $2 returning to_jsonb(d)', p_kind)
        into v_row using p_old ->> 'namespace', p_old ->> p_kind;
    elsif p_old is null then
        execute format('insert into headrace_internal.%1$I as d (%2$s) select %3$s from jsonb_populate_record(null::headrace_internal.%1$I, $1) r'
            ' on conflict (namespace, %1$I) do nothing returning to_jsonb(d)', p_kind, v_columns, v_values)
        into v_row using p_new;
        if v_row is null then
            raise exception '% "%" already exists in namespace "%"', replace(p_kind, '_', ' '), p_new ->> p_kind, p_new ->> 'namespace'
                using errcode = case p_kind when 'rule' then 'HR220' when 'correlator' then 'HR221' when 'relay' then 'HR224' when 'schedule' then 'HR230' else '23505' end,
                    hint = 'Update it, or choose another name.';
        end if;
    else
        execute format('update headrace_internal.%1$I d set (%2$s) = (select %3$s from jsonb_populate_record(null::headrace_internal.%1$I, $1) r)'
            ' where d.namespace = $2 and d.%1$I = $3 returning to_jsonb(d)', p_kind, v_columns, v_values)
        into v_row using p_new, p_old ->> 'namespace', p_old ->> p_kind;
    end if;
    return v_row;
end
$$;

-- Carries out an insert, update or delete on a view of definitions; an update that sets "dropped" drops the definition. Runs as the writer: headrace.write_definition checks its level.
-- A row that another transaction deleted meanwhile is skipped, as on a table.
-- Calls: write_definition.
create or replace function headrace_internal.write_view() returns trigger
language plpgsql volatile set search_path = pg_catalog, pg_temp
as $$
declare
    v_row jsonb := headrace.write_definition(
        tg_table_name, case when tg_op <> 'INSERT' then to_jsonb(old) end,
        case when tg_op = 'INSERT' or tg_op = 'UPDATE' and new.dropped is not true then to_jsonb(new) end);
begin
    if v_row is null then
        return null;
    elsif tg_op = 'DELETE' then
        return old;
    end if;
    return jsonb_populate_record(new, v_row);
end
$$;

-- Returns the rows of headrace_internal.event_type that the caller may read. The view headrace.event_type selects from this function and not from
-- the table: LOCK TABLE on a view that one may update would lock the tables it selects from.
create or replace function headrace_internal.readable_event_types(p_caller headrace_internal.caller default current_user)
returns setof headrace_internal.event_type
language plpgsql stable security definer set search_path = pg_catalog, pg_temp
as $$
declare
    v_namespaces text[] := headrace_internal.authorized_namespaces(p_caller, 'any');
begin
    return query select r.* from headrace_internal.event_type r where r.namespace = any (v_namespaces);
end
$$;

-- Returns the rows of headrace_internal.action that the caller may read. The view headrace.action selects from this function and not from
-- the table: LOCK TABLE on a view that one may update would lock the tables it selects from.
create or replace function headrace_internal.readable_actions(p_caller headrace_internal.caller default current_user)
returns setof headrace_internal.action
language plpgsql stable security definer set search_path = pg_catalog, pg_temp
as $$
declare
    v_namespaces text[] := headrace_internal.authorized_namespaces(p_caller, 'any');
begin
    return query select r.* from headrace_internal.action r where r.namespace = any (v_namespaces);
end
$$;

-- Returns the rows of headrace_internal.rule that the caller may read. The view headrace.rule selects from this function and not from
-- the table: LOCK TABLE on a view that one may update would lock the tables it selects from.
create or replace function headrace_internal.readable_rules(p_caller headrace_internal.caller default current_user)
returns setof headrace_internal.rule
language plpgsql stable security definer set search_path = pg_catalog, pg_temp
as $$
declare
    v_namespaces text[] := headrace_internal.authorized_namespaces(p_caller, 'consume');
begin
    return query select r.* from headrace_internal.rule r where r.namespace = any (v_namespaces);
end
$$;

-- Returns the rows of headrace_internal.correlator that the caller may read. The view headrace.correlator selects from this function and not from
-- the table: LOCK TABLE on a view that one may update would lock the tables it selects from.
create or replace function headrace_internal.readable_correlators(p_caller headrace_internal.caller default current_user)
returns setof headrace_internal.correlator
language plpgsql stable security definer set search_path = pg_catalog, pg_temp
as $$
declare
    v_namespaces text[] := headrace_internal.authorized_namespaces(p_caller, 'consume');
begin
    return query select r.* from headrace_internal.correlator r where r.namespace = any (v_namespaces);
end
$$;

-- Returns the rows of headrace_internal.schedule that the caller may read. The view headrace.schedule selects from this function and not from
-- the table: LOCK TABLE on a view that one may update would lock the tables it selects from.
create or replace function headrace_internal.readable_schedules(p_caller headrace_internal.caller default current_user)
returns setof headrace_internal.schedule
language plpgsql stable security definer set search_path = pg_catalog, pg_temp
as $$
declare
    v_namespaces text[] := headrace_internal.authorized_namespaces(p_caller, 'consume');
begin
    return query select r.* from headrace_internal.schedule r where r.namespace = any (v_namespaces);
end
$$;

-- Returns the rows of headrace_internal.relay that the caller may read. The view headrace.relay selects from this function and not from
-- the table: LOCK TABLE on a view that one may update would lock the tables it selects from.
create or replace function headrace_internal.readable_relays(p_caller headrace_internal.caller default current_user)
returns setof headrace_internal.relay
language plpgsql stable security definer set search_path = pg_catalog, pg_temp
as $$
declare
    v_namespaces text[] := headrace_internal.authorized_namespaces(p_caller, 'consume');
begin
    return query select r.* from headrace_internal.relay r where r.namespace = any (v_namespaces);
end
$$;
