-- Erasures, newest first: one by its id, or those of a namespace, or of one topic. Index: erasure_pkey.
select e.erasure_id, e.topic, e.fields, e.new_key, e.erased_by, e.erased_at, e.row_counts, e.archives_pending, e.tables_pending
from headrace.erasure e
where (%(erasure_id)s::bigint is null or e.erasure_id = %(erasure_id)s)
    and e.namespace = headrace.current_namespace(%(namespace)s) and (%(topic)s::text is null or e.topic = %(topic)s)
order by e.erasure_id desc;
