-- Dead letters counted by action, reason and error group, the most frequent first.
create or replace function headrace.group_dead_letters(p_namespace text default null)
returns table (action text, reason text, error_group text, dead bigint, first_at timestamptz, last_at timestamptz, example_id bigint)
language sql stable
set search_path = pg_catalog, pg_temp
as $$
    select d.action, d.reason, d.error_group, count(*), min(d.buried_at), max(d.buried_at), max(d.dead_letter_id)
    from headrace.action_dead_letters(p_namespace => p_namespace) d
    group by d.action, d.reason, d.error_group
    order by count(*) desc, d.action, d.error_group
$$;
