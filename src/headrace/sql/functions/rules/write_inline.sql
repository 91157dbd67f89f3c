-- Creates the function that evaluates the inline rules of a topic from its program, and tells publishers by the topic's row that there
-- are some. Without a program it does the opposite: publishers of a topic without inline rules pay nothing for them, nor do those of
-- other topics.
-- Every role may read the function. Its text has operators and numbers; constants and names are in headrace_internal.rule_program. A
-- publisher whose snapshot is older than the program does not see them, and its events are evaluated after the log.
-- Locks: the topic row, if publishers must be told; it waits for whoever holds it, less than the server's deadlock timeout. Publishers
-- read the row and are never waited for.
create or replace function headrace_internal.write_inline(p_topic_id integer) returns void
language plpgsql volatile
security definer
set search_path = pg_catalog, pg_temp
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
set enable_seqscan = off
set enable_bitmapscan = off
set enable_hashjoin = off
set enable_mergejoin = off
set jit = off
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
