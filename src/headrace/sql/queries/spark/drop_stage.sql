-- Deletes the rows that the attempts of a failed batch have staged. Index: spark_stage_order.
delete from headrace.spark_stage s
where s.namespace = headrace.current_namespace(%(namespace)s) and s.query = %(query)s and s.batch = %(batch)s
    and s.token = any (%(tokens)s::uuid[]);
