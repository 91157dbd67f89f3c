-- Open dead letters counted by source, reason and error group, the largest groups first. See headrace.count_dead_letters.
select g.kind, g.source, g.name, g.reason, g.error_group, g.dead, g.marked, g.is_more, g.first_at, g.last_at
from headrace.count_dead_letters(p_namespace => %(namespace)s) g
order by g.dead desc, g.source, g.name, g.error_group;
