-- Access tokens of HTTP, without their digests.
create or replace view headrace.access_token with (security_barrier) as
select t.token_id, t.namespace, t.name, t.rights, t.topics, t.event_types, t.rate_per_s, t.created_at, t.created_by, t.expires_at,
    t.last_used_at, t.revoked_at
from headrace_internal.access_token t
where t.namespace in (select k.namespace from headrace_internal.caller_level k where k.level = 'admin');
