-- Records the events that a handler of a consumer got, in their order, in one statement.
insert into headrace_prove.consumed (consumer, partition, position, event_id, node)
select %(consumer)s, e.partition, e.position, e.event_id, %(node)s
from unnest(%(partitions)s::integer[], %(positions)s::bigint[], %(event_ids)s::uuid[])
    with ordinality as e (partition, position, event_id, n)
order by e.n;
