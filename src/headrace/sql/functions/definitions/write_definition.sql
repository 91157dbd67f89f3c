-- Inserts, updates or deletes one row of a definition: rule, correlator, relay, schedule, event_type or action. Returns the row as it is
-- then. The triggers of the public views call it. Takes the level admin in the namespace of the old and of the new row.
-- Only the columns of headrace_internal.definition_columns are the user's; the rest belongs to headrace and is not written, whatever the row says. A column
-- that is null in a new row gets its default. Locks: the row.
create or replace function headrace.write_definition(
    p_kind text, p_old jsonb, p_new jsonb, p_caller headrace_internal.caller default current_user
) returns jsonb
language plpgsql volatile
security definer
set search_path = pg_catalog, pg_temp
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
