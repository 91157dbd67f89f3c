-- Publishes a batch's staged rows, once; tells whether it did, or had done so before.
select headrace_internal.commit_spark_batch(%(query)s, %(batch)s, %(tokens)s::uuid[], %(rows)s, %(namespace)s);
