-- A page of the dead letters of one action with one kind of error, oldest first. The reading ends with the page: see
-- headrace.action_dead_letters. Index: q_hrd_<namespace>_pkey.
select 'action' as kind, a.dead_letter_id::text as id, a.action_id as original_id, a.action as name, a.key, a.payload, a.edited, 'dead' as state,
    a.reason, a.error, a.attempts, a.buried_at
from headrace.action_dead_letters(
    p_action => %(name)s, p_error => %(error)s, p_limit => %(offset)s::integer + %(limit)s::integer, p_namespace => %(namespace)s) a
-- Again by the error: a group without an error passes null above, which selects every error, and a discard would take them all.
where a.reason = %(reason)s and a.error_group is not distinct from %(error)s::text
order by a.dead_letter_id
offset %(offset)s;
