-- Moves claimed cursors, one per partition, in the handler's transaction.
select headrace.advance(%(consumer_id)s, moved.partition, moved.position)
from unnest(%(partitions)s::integer[], %(positions)s::bigint[]) moved (partition, position);
