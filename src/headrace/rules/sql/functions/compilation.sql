-- Marks active versions whose program the compiler or the server rejects as invalid: they are not evaluated any more, and the other
-- rules go on. p_same_shape: all versions of their shapes, since these have the same program. Runs in the transaction that began the compilation. Locks: the rule rows, skip locked: a row that is being written gets
-- a new version anyway. Indexes: rule_version_pkey, rule_match_pkey.
create or replace function headrace_internal.invalidate_versions(p_version_ids bigint[], p_error text, p_position bigint, p_same_shape boolean) returns void
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp
as $$
begin
    if p_same_shape then
        select array_agg(m.version_id) into p_version_ids
        from headrace_internal.rule_match m
        where m.shape_id in (select k.shape_id from headrace_internal.rule_match k where k.version_id = any (p_version_ids));
    end if;
    delete from headrace_internal.rule_match m where m.version_id = any (p_version_ids);
    update headrace_internal.rule_version v
    set status = 'invalid', error = p_error, until_position = p_position, until_at = headrace.clock()
    where v.version_id = any (p_version_ids);
    update headrace_internal.rule r set status = 'invalid', error = p_error
    from headrace_internal.rule_version v
    where v.version_id = any (p_version_ids) and r.rule_id = v.rule_id and r.version = v.version and r.rule_id in (
        select k.rule_id from headrace_internal.rule k
        where k.rule_id in (select w.rule_id from headrace_internal.rule_version w where w.version_id = any (p_version_ids))
        for no key update skip locked);
end
$$;

-- Is an error the program's own fault? Conflicts, missing resources, locks, cancellation and failures of the system are not: they pass
-- to the caller, who tries again.
create or replace function headrace_internal.is_program_error(p_sqlstate text) returns boolean
language sql immutable
as $$
    select left(p_sqlstate, 2) not in ('08', '25', '40', '53', '54', '55', '57', '58')
$$;

-- Checks that the server accepts the program of rules, or the classifier of a correlator; returns its error, or null. Nothing is executed.
-- Calls: is_program_error.
create or replace function headrace_internal.check_program(p_kind text, p_program text) returns text
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp
as $$
begin
    -- Left by a check that was cancelled.
    if exists (select from pg_prepared_statements s where s.name = 'headrace_check') then
        deallocate headrace_check;
    end if;
    if p_kind = 'inline' then
        -- An inline program has no text of a user in it, so that its variables can be replaced.
        execute 'prepare headrace_check (bigint[], numeric[], text[], timestamptz[]) as '
            || replace(replace(replace(replace(replace(p_program, 'from published p', 'from headrace_internal.outbox p'),
                'v_integers[', '($1)['), 'v_numerics[', '($2)['), 'v_texts[', '($3)['), 'v_moments[', '($4)[');
    else
        execute 'prepare headrace_check (bigint, bigint) as ' || p_program;
    end if;
    deallocate headrace_check;
    return null;
exception
    when others then
        if headrace_internal.is_program_error(sqlstate) then
            return sqlerrm;
        end if;
        raise;
end
$$;

-- Drops the function that headrace_internal.write_inline has created for a topic, if there is one.
create or replace function headrace_internal.drop_inline(p_topic_id integer) returns void
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp
as $$
declare
    v_function regprocedure := (
        select f.oid from pg_proc f
        where f.pronamespace = 'headrace_internal'::regnamespace and f.proname = 'match_inline_' || p_topic_id);
begin
    if v_function is not null then
        execute format('drop function %s', v_function);
    end if;
end
$$;

-- Creates the function that evaluates the inline rules of a topic from its program, and tells publishers by the topic's row that there are
-- some. Without a program it does the opposite: publishers of a topic without inline rules pay nothing for them, nor do those of other
-- topics. Every role may read the function. Its text has operators and numbers; constants and names are in headrace_internal.rule_program.
-- A publisher whose snapshot is older than the program does not see them, and its events are evaluated after the log.
-- Locks: the topic row, if publishers must be notified; it waits for whoever holds it, less than the server's deadlock timeout. Publishers
-- read the row and are never waited for.
-- Calls: drop_inline.
create or replace function headrace_internal.write_inline(p_topic_id integer) returns void
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp
set lock_timeout = '500ms'
as $$
declare
    v_name    text := 'match_inline_' || p_topic_id;
    v_program record;
    v_exists  boolean;
begin
    select p.checksum, p.program into v_program
    from headrace_internal.rule_program p where p.topic_id = p_topic_id and p.kind = 'inline';
    v_exists := found;
    update headrace_internal.topic t set has_inline_rules = v_exists
    where t.topic_id = p_topic_id and t.has_inline_rules <> v_exists;
    if not v_exists then
        perform headrace_internal.drop_inline(p_topic_id);
        return;
    end if;
    execute format($create$
create or replace function headrace_internal.%1$I(
    p_event_id uuid, p_type text, p_key text, p_payload jsonb, p_headers jsonb, p_emitted_at timestamptz, p_producer text
) returns bigint[]
language plpgsql volatile
set plan_cache_mode = force_generic_plan
set enable_seqscan = off set enable_bitmapscan = off set enable_hashjoin = off set enable_mergejoin = off set jit = off
as $match$
-- Written by headrace_internal.write_inline. Returns the versions of rules that are true for an event.
declare
    v_integers bigint[];
    v_numerics numeric[];
    v_texts    text[];
    v_moments  timestamptz[];
begin
    select c.integers, c.numerics, c.texts, c.moments into strict v_integers, v_numerics, v_texts, v_moments
    from headrace_internal.rule_program c where c.topic_id = %2$s and c.kind = 'inline' and c.checksum = %3$L;
    return (
        with published as (
            select 0::bigint as id, %2$s as topic_id, p_event_id as event_id, p_type as type, p_key as key, p_payload as payload,
                p_headers as headers, p_emitted_at as emitted_at, p_producer as producer
        )
        select array_agg(f.version_id order by f.version_id) from (%4$s) f
        -- An event that is in the log already was published again: it is not a new event.
        where not exists (select from headrace_internal.%5$I l where l.event_id = f.event_id));
end
$match$
$create$, v_name, p_topic_id, v_program.checksum, v_program.program, 'log_' || p_topic_id);
    execute format('revoke execute on function headrace_internal.%I from public', v_name);
end
$$;

-- Activates compiled versions after a position, in the transaction that began the compilation. The version that was active ends
-- there in any case: an invalid version is not evaluated, and neither is the text that it replaced.
-- p_compiled: an array of {version_id, error, canonical, filter, shape, keys, variant, bound, bound_text, integers, numerics, texts, moments}.
-- Indexes: rule_version_pkey, rule_version_unique, rule_match_pkey.
-- The rules are an array where it matters: its length is known to the planner, which then uses the indexes, so that the price of a
-- rule does not grow with the number of rules.
create or replace function headrace_internal.take_effect(p_topic_id integer, p_position bigint, p_compiled jsonb) returns void
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp
as $$
declare
    v_rule_ids bigint[];
begin
    create temporary table compiled on commit drop as
    select c.version_id, c.error, c.canonical, c.filter, c.shape, c.keys, c.variant, c.bound, c.bound_text, c.integers, c.numerics, c.texts, c.moments,
        v.rule_id, v.event_type, v.timing,
        -- Of several versions of a rule the last one counts.
        v.active and c.error is null and v.version_id = max(v.version_id) over (partition by v.rule_id) as starts
    from jsonb_to_recordset(p_compiled) c (version_id bigint, error text, canonical text, filter text, shape text, keys text[],
        variant integer, bound double precision, bound_text text, integers bigint[], numerics numeric[], texts text[], moments timestamptz[])
    join headrace_internal.rule_version v on v.version_id = c.version_id;

    v_rule_ids := array(select distinct c.rule_id from compiled c);
    delete from headrace_internal.rule_match m
    using headrace_internal.rule_version v
    where v.version_id = m.version_id and v.topic_id = p_topic_id and v.rule_id = any (v_rule_ids);
    update headrace_internal.rule_version v set until_position = p_position, until_at = headrace.clock()
    where v.topic_id = p_topic_id and v.rule_id = any (v_rule_ids)
        and v.since_position is not null and v.until_position is null;
    update headrace_internal.rule_version v
    set status = case when c.error is null then 'valid' else 'invalid' end, error = c.error, canonical = c.canonical, filter = c.filter,
        since_position = case when c.starts then p_position + 1 end, since_at = case when c.starts then headrace.clock() end
    from compiled c where v.version_id = c.version_id;

    insert into headrace_internal.rule_shape as s (topic_id, timing, shape, variants)
    select p_topic_id, c.timing, c.shape, coalesce(array_agg(distinct c.variant) filter (where c.variant is not null), '{}')
    from compiled c where c.starts group by c.timing, c.shape
    on conflict (topic_id, timing, md5(shape)) do update
    set variants = (select array_agg(distinct v.variant order by v.variant) from unnest(s.variants || excluded.variants) v (variant))
    where not s.variants @> excluded.variants;
    insert into headrace_internal.rule_match (shape_id, version_id, key_number, since_position, event_type, key, bound, bound_text,
        integers, numerics, texts, moments)
    select s.shape_id, c.version_id, k.key_number, p_position + 1, c.event_type, k.key, c.bound, c.bound_text,
        c.integers, c.numerics, c.texts, c.moments
    from compiled c
    cross join lateral unnest(c.keys) with ordinality k (key, key_number)
    join headrace_internal.rule_shape s on s.topic_id = p_topic_id and s.timing = c.timing and md5(s.shape) = md5(c.shape)
    where c.starts;
    delete from headrace_internal.rule_shape s
    where s.topic_id = p_topic_id and not exists (select from headrace_internal.rule_match m where m.shape_id = s.shape_id);
    drop table compiled;
end
$$;
