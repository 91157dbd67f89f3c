-- The levels that the reader holds, per topic.
create or replace view headrace_internal.caller_topic as
select t.topic_id, k.level
from headrace_internal.topic t
join headrace_internal.caller_level k on k.namespace = t.namespace;
