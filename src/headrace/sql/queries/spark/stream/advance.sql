-- Moves a stream behind a micro-batch. Index: stream_pkey.
update headrace_internal.stream s
set shard = %(shard)s, topic = %(topic)s, position = %(position)s, batches = s.batches + 1, outputs = s.outputs + %(outputs)s,
    passed_at = timestamptz 'epoch' + %(passed_us)s * interval '1 microsecond', committed_at = headrace.clock()
where s.stream_id = %(stream_id)s;
