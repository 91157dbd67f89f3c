-- Access tokens: who may publish and read over HTTP, in which topics and with which event types.
-- Only the SHA-256 of a token is stored. A token is 256 random bits, so that no slow hash is needed: nobody can guess one.
create table headrace_internal.access_token (
    token_id     bigint      not null generated always as identity,
    namespace    text        not null,
    name         text        not null,
    digest       bytea       not null,
    rights       text[]      not null,
    -- Names, or beginnings of names that end in *. Null: all of the namespace.
    topics       text[],
    event_types  text[],
    -- Events and requests per second in each process. Null: the limit of the server.
    rate_per_s   double precision,
    created_at   timestamptz not null default headrace.clock(),
    created_by   text        not null,
    expires_at   timestamptz,
    -- Written once a minute at most.
    last_used_at timestamptz,
    revoked_at   timestamptz,
    constraint access_token_pkey primary key (token_id),
    constraint access_token_digest_unique unique (digest),
    constraint access_token_namespace_exists foreign key (namespace)
        references headrace_internal.namespace (namespace) on delete cascade,
    constraint access_token_name_rule check (name ~ '^[a-z][a-z0-9_.-]{0,99}$'),
    constraint access_token_digest_32_bytes check (octet_length(digest) = 32),
    constraint access_token_rights_known check (rights <@ array['publish', 'read'] and cardinality(rights) > 0),
    constraint access_token_patterns_limited check (
        coalesce(cardinality(topics) between 1 and 100, true) and coalesce(cardinality(event_types) between 1 and 100, true)),
    constraint access_token_rate_positive check (rate_per_s > 0)
);

-- The name of a revoked token is free again.
create unique index access_token_name_unique on headrace_internal.access_token (namespace, name) where revoked_at is null;

-- Requests that carried an Idempotency-Key, by the digest of the key: what they asked for and the ids of their events. Written in the
-- transaction that publishes them, deleted after a day.
create table headrace_internal.idempotency_key (
    token_id       bigint      not null,
    digest         bytea       not null,
    request_digest bytea       not null,
    event_ids      uuid[]      not null,
    created_at     timestamptz not null default headrace.clock(),
    constraint idempotency_key_once primary key (token_id, digest),
    constraint idempotency_key_token_exists foreign key (token_id)
        references headrace_internal.access_token (token_id) on delete cascade,
    constraint idempotency_key_digests_32_bytes check (octet_length(digest) = 32 and octet_length(request_digest) = 32)
);

-- The clean-up of old rows uses it.
create index idempotency_key_age on headrace_internal.idempotency_key (created_at);

-- Hooks: addresses for webhooks of other systems. A request with a valid signature becomes an event.
create table headrace_internal.hook (
    hook_id    bigint      not null generated always as identity,
    namespace  text        not null,
    hook       text        not null,
    topic      text        not null,
    -- How the sender signs: 'standard-webhooks', 'github', 'stripe', 'token', or a scheme that a package adds to the servers.
    scheme     text        not null,
    -- References such as env:GITHUB or file:github, the newest first; the server looks them up. Never the secrets themselves.
    secrets    text[]      not null,
    -- How a request becomes an event: {"type": "github.{header:x-github-event}", "key": …, "id": …, "payload": …}
    mapping    jsonb       not null default '{}',
    -- Seconds for which a signed time counts.
    window_s   double precision not null default 300,
    -- Part of what the ids of its events are derived from, so that nobody can know and take such an id beforehand. Servers read it alone.
    id_key     uuid        not null default gen_random_uuid(),
    active     boolean     not null default true,
    created_at timestamptz not null default headrace.clock(),
    created_by text        not null,
    constraint hook_pkey primary key (hook_id),
    constraint hook_name_unique unique (namespace, hook),
    constraint hook_namespace_exists foreign key (namespace)
        references headrace_internal.namespace (namespace) on delete cascade,
    constraint hook_name_rule check (hook ~ '^[a-z][a-z0-9_.-]{0,99}$'),
    constraint hook_scheme_rule check (scheme ~ '^[a-z][a-z0-9_-]{0,39}$'),
    constraint hook_secrets_are_references check (
        cardinality(secrets) between 1 and 10 and array_position(secrets, null) is null
        and cardinality(string_to_array(array_to_string(secrets, ' '), ' ')) = cardinality(secrets)
        and array_to_string(secrets, ' ') ~ '^((env:[A-Z0-9]+(_[A-Z0-9]+)*|file:[A-Za-z0-9][A-Za-z0-9_-]*)( |$))+$'),
    constraint hook_mapping_small_object check (jsonb_typeof(mapping) = 'object' and octet_length(mapping::text) <= 16384),
    constraint hook_window_s_1_to_86400 check (window_s between 1 and 86400)
);
