-- The topics of a shard, to compare with the other shards.
select t.namespace || '/' || t.topic as topic, t.partitions from headrace_internal.topic t order by 1;
