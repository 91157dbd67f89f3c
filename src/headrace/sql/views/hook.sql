-- Hooks: addresses for webhooks of other systems. `secrets` are references, not the secrets.
create or replace view headrace.hook with (security_barrier) as
select h.hook_id, h.namespace, h.hook, h.topic, h.scheme, h.secrets, h.mapping, h.window_s, h.active, h.created_at, h.created_by
from headrace_internal.hook h
where h.namespace in (select k.namespace from headrace_internal.caller_level k where k.level = 'admin');
