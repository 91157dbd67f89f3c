-- The hooks of a namespace, or the one with a name.
select h.hook_id, h.namespace, h.hook, h.topic, h.scheme, h.secrets, h.mapping, h.window_s, h.active, h.created_at, h.created_by
from headrace.hook h
where h.namespace = headrace.current_namespace(%(namespace)s) and (%(hook)s::text is null or h.hook = %(hook)s)
order by h.hook;
