-- Returns the value of a compiled condition, or of an expression of several, for one event. p_filter is executed: it must be what the condition
-- language has printed, never a user's text. The caller pins the search path.
create or replace function headrace_internal.evaluate_filter(
    p_filter text, p_type text, p_key text, p_payload jsonb, p_headers jsonb, p_emitted_at timestamptz
) returns boolean
language plpgsql stable
as $$
declare
    v_answer boolean;
begin
    execute format('select %s from (select $1 as type, $2 as key, $3 as payload, $4 as headers, $5 as emitted_at) e', p_filter)
    into v_answer using p_type, p_key, p_payload, p_headers, p_emitted_at;
    return v_answer;
end
$$;

-- What a stored rule says about a JSON object, without publishing it: true, false, or null if its condition is unknown. An event of another
-- type than the rule's is false; without p_type the object is one of the rule's type. Evaluates the compiled condition of the rule's
-- newest version, also of a rule that is not active. Raises HR120 for a rule that is unknown, HR200 while the rule waits for a node that compiles it, HR300 for an invalid one.
-- Indexes: rule_name_unique, rule_version_unique. Calls: headrace_internal.evaluate_filter.
-- Calls: evaluate_filter.
create or replace function headrace.evaluate(
    p_rule       text,
    p_object     jsonb,
    p_type       text default null,
    p_key        text default null,
    p_headers    jsonb default '{}',
    p_emitted_at timestamptz default null,
    p_namespace  text default null,
    p_caller     headrace_internal.caller default current_user
) returns boolean
language plpgsql stable security definer set search_path = pg_catalog, pg_temp
set jit = off
as $$
declare
    v_namespace text := headrace_internal.authorize(p_caller, 'consume', p_namespace);
    v_version   record;
begin
    select v.event_type, v.status, v.error, v.filter into v_version
    from headrace_internal.rule r
    join headrace_internal.rule_version v on v.rule_id = r.rule_id and v.version = r.version
    where r.namespace = v_namespace and r.rule = p_rule;
    if not found then
        raise exception 'there is no rule "%" in namespace "%"', p_rule, v_namespace
            using errcode = 'HR120', hint = 'See: select rule from headrace.rule.';
    elsif v_version.status = 'pending' then
        raise exception 'rule "%" is not compiled yet', p_rule
            using errcode = 'HR200', hint = 'Run a node: headrace node run.';
    elsif v_version.status = 'invalid' then
        raise exception 'rule "%" is invalid: %', p_rule, v_version.error
            using errcode = 'HR300', hint = 'Correct its condition.';
    end if;
    return coalesce(p_type, v_version.event_type) = v_version.event_type and headrace_internal.evaluate_filter(v_version.filter, v_version.event_type, p_key,
        coalesce(p_object, 'null'), coalesce(p_headers, '{}'), coalesce(p_emitted_at, headrace.clock()));
end
$$;

-- Why no rule fired on an event: 'no rule for its type', 'a condition unknown' (of at least one rule; the others are false), 'no condition
-- true', 'erased' (its data is gone, so its conditions cannot be asked again), or 'published before its rule': a condition is true, but its
-- inline rule was not there yet when the event was published. It evaluates the compiled conditions of the versions that were active at the
-- event's position: nothing is recorded per event. For the view headrace.event_unmatched, which calls it only where the reason is read.
-- Index: rule_version_in_force.
-- Calls: evaluate_filter.
create or replace function headrace_internal.unmatched_reason(
    p_topic_id integer, p_position bigint, p_type text, p_key text, p_payload jsonb, p_headers jsonb, p_emitted_at timestamptz,
    p_caller headrace_internal.caller default current_user
) returns text
language plpgsql stable security definer set search_path = pg_catalog, pg_temp
set jit = off
as $$
declare
    v_any_true text;
begin
    perform headrace_internal.authorize_id(p_caller, 'consume', 'topic', p_topic_id);
    select string_agg(format('(%s)', v.filter), ' or ' order by v.version_id) into v_any_true
    from headrace_internal.rule_version v
    where v.topic_id = p_topic_id and v.since_position <= p_position
        and (v.until_position is null or v.until_position >= p_position) and v.event_type = p_type;
    if v_any_true is null then
        return 'no rule for its type';
    elsif p_headers ?| array['headrace-erased', 'headrace-redacted'] then
        return 'erased';
    end if;
    return case headrace_internal.evaluate_filter(v_any_true, p_type, p_key, p_payload, p_headers, p_emitted_at)
        when true then 'published before its rule'
        when false then 'no condition true'
        else 'a condition unknown' end;
end
$$;

-- Evaluates the rules of a topic on the events after p_after up to p_upto: which version is true for which event, in order and in chunks,
-- because an array is limited to 1 GB, and a payload may have 1 MB. Nothing for a topic without rules of this kind. The program is a
-- prepared statement of the session, so that it is planned once per session: by its text in a table instead of a function nobody but the
-- session can read it, and no role but the owner's and the node's runs it. Another program has another name. Nested loops only: the plan is
-- made once, and must suit one event and thousands, one rule and ten thousand. Indexes: log_position, rule_match_access, rule_program_pkey.
-- Calls: trace_headers.
create or replace function headrace_internal.match_events(p_topic_id integer, p_kind text, p_after bigint, p_upto bigint)
returns setof headrace_internal.rule_hit[]
language plpgsql volatile set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
set enable_seqscan = off set enable_bitmapscan = off set enable_hashjoin = off set enable_mergejoin = off set jit = off
as $$
declare
    v_name      text := (
        select format('headrace_%s_%s_%s', p.kind, p.topic_id, p.checksum)
        from headrace_internal.rule_program p where p.topic_id = p_topic_id and p.kind = p_kind);
    v_call      text;
    v_statement text;
begin
    if v_name is null then
        return;
    end if;
    v_call := format('execute %I (%s, %s)', v_name, p_after, p_upto);
    begin
        return query execute v_call;
    exception
        -- It is not prepared in this session yet (a syntax error on PostgreSQL 15), or a type in it was changed by a migration.
        when invalid_sql_statement_name or syntax_error or feature_not_supported then
            -- This also deallocates programs that are no longer valid.
            for v_statement in
                select s.name from pg_prepared_statements s
                where s.name ~ '^headrace_(after|late)_' and not exists (
                    select from headrace_internal.rule_program p
                    where (p.topic_id, p.kind) <> (p_topic_id, p_kind)
                        and s.name = format('headrace_%s_%s_%s', p.kind, p.topic_id, p.checksum))
            loop
                execute format('deallocate %I', v_statement);
            end loop;
            select format(
                'prepare %I (bigint, bigint) as select array_agg(h.hit order by h.n) from ('
                'select row(h.version_id, h.position, h.event_id, h.type, h.key, h.payload, h.emitted_at, h.producer, '
                'headrace_internal.trace_headers(h.headers))::headrace_internal.rule_hit as hit, '
                'row_number() over o as n, sum(pg_column_size(h.payload)) over (o rows unbounded preceding) as bytes '
                'from (%s) h window o as (order by h.position, h.version_id)'
                ') h group by h.n / 1000, h.bytes / 16000000 order by min(h.n)', v_name, p.program)
            into v_statement
            from headrace_internal.rule_program p where p.topic_id = p_topic_id and p.kind = p_kind;
            execute v_statement;
            return query execute v_call;
    end;
end
$$;
