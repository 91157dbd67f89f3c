-- HTTP access tokens, without their digests.
create or replace view headrace.access_token with (security_barrier) as
select t.token_id, t.namespace, t.name, t.rights, t.topics, t.event_types, t.rate_per_s, t.created_at, t.created_by, t.expires_at,
    t.last_used_at, t.revoked_at
from headrace_internal.access_token t
where t.namespace in (select k.namespace from headrace_internal.caller_level k where k.level = 'admin');

-- Hooks: addresses for webhooks of other systems. `secrets` are references, not the secrets.
create or replace view headrace.hook with (security_barrier) as
select h.hook_id, h.namespace, h.hook, h.topic, h.scheme, h.secrets, h.mapping, h.window_s, h.active, h.created_at, h.created_by
from headrace_internal.hook h
where h.namespace in (select k.namespace from headrace_internal.caller_level k where k.level = 'admin');
