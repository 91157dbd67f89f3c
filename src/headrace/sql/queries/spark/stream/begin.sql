-- The stream of this name, created if it does not exist, with the correlators it was begun with. Index: stream_name_unique.
with begun as (
    insert into headrace_internal.stream (namespace, stream, correlators)
    values (headrace.current_namespace(%(namespace)s), %(stream)s, %(correlators)s)
    on conflict on constraint stream_name_unique do nothing
    returning stream_id, correlators
)
select b.stream_id, b.correlators from begun b
union all
select s.stream_id, s.correlators from headrace_internal.stream s
where s.namespace = headrace.current_namespace(%(namespace)s) and s.stream = %(stream)s
limit 1;
