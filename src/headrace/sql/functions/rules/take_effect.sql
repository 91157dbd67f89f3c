-- Activates compiled versions after a position, in the transaction that began the compilation. The version that was active ends
-- there in any case: an invalid version is not evaluated, and neither is the text that it replaced.
-- p_compiled: an array of {version_id, error, canonical, filter, shape, keys, variant, bound, bound_text, integers, numerics, texts, moments}.
-- Indexes: rule_version_pkey, rule_version_unique, rule_match_pkey.
-- The rules are an array where it matters: its length is known to the planner, which then uses the indexes, so that the price of a
-- rule does not grow with the number of rules.
create or replace function headrace_internal.take_effect(p_topic_id integer, p_position bigint, p_compiled jsonb) returns void
language plpgsql volatile
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_rule_ids integer[];
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
