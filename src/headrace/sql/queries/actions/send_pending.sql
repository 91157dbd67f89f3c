-- Sends one action that stays out of sight for a while.
select s from headrace.send_actions(%(namespace)s, array[%(action)s::jsonb], array[%(hold_s)s]) s;
