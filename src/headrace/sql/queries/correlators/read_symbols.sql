-- The events of a batch as a node steps them: position, key, time in microseconds, and {{values}}, their symbols or facts.
-- Index: log_position.
select s.position, s.key, (extract(epoch from s.appended_at) * 1000000)::bigint as time, {values}
from headrace_internal.read_symbols(%s, %s, %s) s;
