-- Dead letters of actions by action, reason and kind of error.
select g.action, g.reason, g.error_group, g.dead, g.first_at, g.last_at, g.example_id
from headrace.group_dead_letters(%(namespace)s) g;
