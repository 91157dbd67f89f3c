-- How many events are behind a consumer that was just created, and which other consumers of its topic no live node runs.
select coalesce(sum(c.lag_events) filter (where c.consumer = %(consumer)s), 0)::bigint as behind,
    array_agg(distinct c.consumer order by c.consumer) filter (
        where c.consumer <> %(consumer)s and c.nodes = 0 and c.consumer not like 'headrace.%%' and c.consumer not like 'relay.%%') as idle
from headrace.consumer_lag c
where c.namespace = headrace.current_namespace(%(namespace)s) and c.topic = %(topic)s;
