-- Redrives the dead letters of an action; from now on its handler succeeds with them.
with letter as (
    select d.action_id from headrace.action_dead_letters(p_action => %(action)s) d
), mended as (
    insert into headrace_prove.mended (action_id) select l.action_id from letter l on conflict do nothing
)
select headrace.redrive_actions(p_action => %(action)s) where exists (select from letter);
