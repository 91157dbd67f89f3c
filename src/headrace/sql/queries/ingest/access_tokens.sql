-- The access tokens of a namespace, those in use first.
select t.token_id, t.namespace, t.name, t.rights, t.topics, t.event_types, t.rate_per_s, t.created_at, t.created_by, t.expires_at,
    t.last_used_at, t.revoked_at
from headrace.access_token t
where t.namespace = headrace.current_namespace(%(namespace)s)
order by t.revoked_at is not null, t.name, t.token_id;
