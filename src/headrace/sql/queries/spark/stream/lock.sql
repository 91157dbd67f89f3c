-- Where a stream is. Locks: its row, for the transaction of a micro-batch. Index: stream_pkey.
select s.shard, s.topic, s.position from headrace_internal.stream s where s.stream_id = %(stream_id)s for update;
