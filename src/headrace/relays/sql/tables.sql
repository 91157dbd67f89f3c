-- Relays: insert, update and delete on the view headrace.relay manage them. Triggers record every change as a version, keep the
-- relay's consumer "relay.<name>" and notify the nodes. Secrets are never here: an option refers to one by env: or file:.
create table headrace_internal.relay (
    relay_id   bigint      not null generated always as identity,
    -- Targets count its positions under it: no relay of another database, and no later one of this name, has the same.
    uid        uuid        not null default headrace.uuid_v7(),
    namespace  text        not null default headrace.current_namespace(),
    relay      text        not null,
    topic      text        not null,
    condition  text        not null default 'true',
    -- The kind of system to deliver to, and where and how.
    target     text        not null,
    options    jsonb       not null default '{}',
    -- What a message's body is: the payload, a CloudEvent, or fields by the mapping.
    format     text        not null default 'stored',
    mapping    jsonb,
    -- Where the cursors of a new relay start.
    start      text        not null default 'latest',
    -- Failure policy, as a consumer has it.
    attempts   integer,
    backoff_s  double precision not null default 1,
    backoff_max_s double precision not null default 300,
    when_exhausted text    not null default 'dead_letter',
    key_order  text        not null default 'hold',
    -- How many events are delivered together at most, and how many partitions a node delivers at the same time.
    batch      integer     not null default 100,
    concurrency integer    not null default 1,
    active     boolean     not null default true,
    -- Who manages it: 'sql', 'app', or the file that defines it. Applying a file drops only relays of that file.
    source     text        not null default 'sql',
    -- Filled in by the trigger and by nodes. 'disabled': the target wants no more; headrace.resume tries it again.
    topic_id   integer     not null,
    version    integer     not null default 1,
    status     text        not null default 'pending',
    error      text,
    constraint relay_pkey primary key (relay_id),
    constraint relay_name_unique unique (namespace, relay),
    constraint relay_topic_exists foreign key (topic_id) references headrace_internal.topic (topic_id) on delete cascade,
    -- The name of its consumer must be one, too.
    constraint relay_name_rule check (relay ~ '^[a-z][a-z0-9_.-]{0,79}$'),
    constraint relay_condition_100000_bytes check (octet_length(condition) <= 100000),
    constraint relay_target_rule check (target ~ '^[a-z][a-z0-9_-]{0,39}$'),
    constraint relay_options_object check (jsonb_typeof(options) = 'object' and octet_length(options::text) <= 16384),
    constraint relay_format_known check (format in ('stored', 'cloudevents', 'cloudevents-binary', 'template')),
    constraint relay_template_has_mapping check ((format = 'template') = (mapping is not null)),
    constraint relay_mapping_object check (jsonb_typeof(mapping) = 'object' and octet_length(mapping::text) <= 16384),
    constraint relay_start_known check (start in ('earliest', 'latest')),
    constraint relay_attempts_positive check (attempts > 0),
    constraint relay_backoff_positive check (backoff_s > 0 and backoff_max_s >= backoff_s and backoff_max_s <= 31536000),
    constraint relay_when_exhausted_known check (when_exhausted in ('stop', 'dead_letter')),
    constraint relay_key_order_known check (key_order in ('hold', 'skip')),
    constraint relay_batch_1_to_10000 check (batch between 1 and 10000),
    constraint relay_concurrency_1_to_64 check (concurrency between 1 and 64),
    constraint relay_status_known check (status in ('pending', 'valid', 'invalid', 'disabled'))
);
create index relay_topic on headrace_internal.relay (topic_id);

-- Every version of every relay, also of dropped ones.
create table headrace_internal.relay_version (
    -- The relay as it was written. Nodes report to headrace_internal.relay: status and error stay as they were here.
    like headrace_internal.relay including defaults,
    -- This version is the deletion of the relay.
    dropped    boolean     not null default false,
    written_at timestamptz not null default headrace.clock(),
    written_by text        not null default session_user,
    constraint relay_version_pkey primary key (relay_id, version),
    constraint relay_version_topic_exists foreign key (topic_id) references headrace_internal.topic (topic_id) on delete cascade
);
create index relay_version_topic on headrace_internal.relay_version (topic_id);
