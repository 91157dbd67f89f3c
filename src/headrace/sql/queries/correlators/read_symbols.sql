-- The events of a batch as a table sees them; without those that have no key.
select e.position, e.key, e.symbol, e.symbols, e.appended_at
from headrace_internal.{function}(%(after)s, %(upto)s) e
where e.key is not null
order by e.position;
