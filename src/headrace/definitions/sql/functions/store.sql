-- Returns the columns of a definition that users write, which are those of the view headrace_internal.<kind>_fields; null for what is not
-- a kind. Admins may update these columns of the public view.
create or replace function headrace_internal.definition_columns(p_kind text) returns text[]
language sql stable
as $$
    select array_agg(a.attname::text order by a.attnum) from pg_catalog.pg_attribute a
    where a.attrelid = to_regclass(format('headrace_internal.%I', p_kind || '_fields')) and a.attnum > 0
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

-- Returns the rows of a table of definitions that the caller may read; p_rows is a null of the table's type. The views of definitions select
-- from this function and not from the tables: LOCK TABLE on a view that one may update would lock the tables it selects from.
-- Calls: definition_columns.
create or replace function headrace_internal.readable_definitions(
    p_rows anyelement, p_caller headrace_internal.caller default current_user
) returns setof anyelement
language plpgsql stable security definer set search_path = pg_catalog, pg_temp
as $$
declare
    v_namespaces text[] := headrace_internal.authorized_namespaces(p_caller,
        case when pg_typeof(p_rows) in ('headrace_internal.event_type'::regtype, 'headrace_internal.action'::regtype) then 'any' else 'consume' end);
begin
    if headrace_internal.definition_columns(split_part(pg_typeof(p_rows)::text, '.', 2)) is null then
        raise exception '% is not a kind of definition', pg_typeof(p_rows) using errcode = 'HR300';
    end if;
    return query execute format('select r.* from %s r where r.namespace = any ($1)', pg_typeof(p_rows)) using v_namespaces;
end
$$;

-- Does an update leave a definition as it is? Who manages it, and what we fill in, is no part of it; `restart` asks for a new version.
create or replace function headrace_internal.is_same_definition(p_old jsonb, p_new jsonb) returns boolean
language sql immutable
as $$
    select p_new - v.ours = p_old - v.ours and not coalesce((p_new ->> 'restart')::boolean, false)
    from (values ('{source,restart,topic_id,version,status,error,since_position}'::text[])) v (ours)
$$;

-- Before a rule, correlator or relay is written: finds its topic (HR101), has it checked by headrace_internal.check_<kind>, and counts a
-- change of its definition as a new version. A correlator and a relay keep name and topic. A rule that moves to another topic ends in
-- the old one, and that is a version too.
-- Calls: is_same_definition, topic_id.
create or replace function headrace_internal.definition_written() returns trigger
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp
as $$
declare
    v_kind text := tg_table_name;
    v_old  jsonb;
    v_new  jsonb;
begin
    if tg_op = 'UPDATE' then
        v_old := to_jsonb(old);
        v_new := to_jsonb(new);
        if v_kind <> 'rule' and (v_new ->> 'namespace', v_new ->> v_kind, v_new ->> 'topic') <> (v_old ->> 'namespace', v_old ->> v_kind, v_old ->> 'topic') then
            raise exception '% "%" keeps its name and its topic', v_kind, v_old ->> v_kind
                using errcode = case v_kind when 'correlator' then 'HR222' else 'HR200' end, hint = 'Drop it, and create another one.';
        end if;
        if headrace_internal.is_same_definition(v_old, v_new) then
            new.topic_id := old.topic_id;
            return new;
        end if;
    end if;
    new.topic_id := headrace.topic_id(new.topic, new.namespace);
    execute format('select headrace_internal.%I($1)', 'check_' || v_kind) using new;
    new.version := case when tg_op = 'INSERT' then 1 when old.topic_id <> new.topic_id then old.version + 2 else old.version + 1 end;
    new.status := 'pending';
    new.error := null;
    -- A relay has none: it starts where its consumer stands.
    if v_kind <> 'relay' then
        new.since_position := null;
    end if;
    return new;
end
$$;

-- Records definitions as versions, as they are written or, if p_dropped, that they ended. p_rows: an array of their rows. Returns the
-- topics of the versions that are new. Rows whose topic is gone leave none. Index: <kind>_version_unique or <kind>_version_pkey.
create or replace function headrace_internal.record_versions(p_kind text, p_rows jsonb, p_dropped boolean default false) returns integer[]
language plpgsql volatile
as $$
declare
    v_topic_ids integer[];
begin
    if p_dropped then
        select jsonb_agg(r.value || jsonb_build_object('version', (r.value ->> 'version')::integer + 1, 'active', false, 'restart', false,
            'status', 'pending', 'error', null, 'since_position', null)) into p_rows
        from jsonb_array_elements(p_rows) r;
    end if;
    execute format($sql$
        with recorded as (
            insert into headrace_internal.%2$I (%3$s, dropped)
            select %4$s, $2
            from jsonb_populate_recordset(null::headrace_internal.%1$I, $1) r
            where exists (select from headrace_internal.topic t where t.topic_id = r.topic_id)
                and not exists (select from headrace_internal.%2$I v where v.%5$I = r.%5$I and v.version = r.version)
            order by r.%5$I
            returning topic_id)
        select array_agg(distinct d.topic_id) from recorded d
        $sql$, p_kind, p_kind || '_version', string_agg(quote_ident(a.attname), ', '), string_agg('r.' || quote_ident(a.attname), ', '),
        p_kind || '_id')
    from pg_catalog.pg_attribute a
    where a.attrelid = format('headrace_internal.%I', p_kind)::regclass and a.attnum > 0 and not a.attisdropped
    into v_topic_ids using p_rows, p_dropped;
    return coalesce(v_topic_ids, '{}');
end
$$;

-- Copies the results of compilations to the rules or correlators: those of some versions, or of all. A row that its writer still locks
-- is left for the next call. With many to compile, a call for all of them reads each that still waits.
-- Locks: rows whose version has been compiled, no key update, skip locked. Indexes: <kind>_pending, <kind>_version_pkey,
-- <kind>_version_unique.
create or replace function headrace_internal.show_status(p_kind text, p_version_ids bigint[] default null) returns integer
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp
as $$
declare
    v_shown integer;
begin
    execute format($sql$
        with shown as (
            update headrace_internal.%1$I d
            set status = v.status, error = v.error, since_position = v.since_position
            from headrace_internal.%2$I v
            where v.%3$I = d.%3$I and v.version = d.version and v.status <> 'pending' and %4$s
                -- Lock only these: with many to compile, every batch would write a lock into each that still waits.
                and d.%3$I in (
                    select p.%3$I from headrace_internal.%1$I p
                    join headrace_internal.%2$I v on v.%3$I = p.%3$I and v.version = p.version
                    where p.status = 'pending' and v.status <> 'pending' and %4$s for no key update of p skip locked)
            returning 1)
        select count(*) from shown
        $sql$, p_kind, p_kind || '_version', p_kind || '_id', case when p_version_ids is null then 'true' else 'v.version_id = any ($1)' end)
    into v_shown using p_version_ids;
    return v_shown;
end
$$;

-- Deletes the internal consumer of a topic's rules, or of a correlator, that no definition needs, so that it does not hold back retention.
-- True if it did. Runs in the transaction that began a compilation. A transaction that has written a definition and is still open holds
-- the consumer's row: the consumer then stays, and a later compilation decides. Locks: the consumer row, for update, skip locked.
create or replace function headrace_internal.unwatch(p_topic_id integer, p_consumer text) returns boolean
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp
as $$
declare
    v_consumer_id bigint;
begin
    select c.consumer_id into v_consumer_id
    from headrace_internal.consumer c where c.topic_id = p_topic_id and c.consumer = p_consumer
    for update skip locked;
    -- Checked while the row is locked: whoever writes a definition from here on waits for us, and creates the consumer again.
    if not found
        or p_consumer = 'headrace.rules' and (exists (select from headrace_internal.rule r where r.topic_id = p_topic_id)
            or exists (select from headrace_internal.rule_version v where v.topic_id = p_topic_id and v.status = 'pending'))
        or p_consumer <> 'headrace.rules' and exists (select from headrace_internal.correlator k
            where k.topic_id = p_topic_id and k.active and 'headrace.correlator.' || k.correlator = p_consumer) then
        return false;
    end if;
    delete from headrace_internal.consumer c where c.consumer_id = v_consumer_id;
    return true;
end
$$;
