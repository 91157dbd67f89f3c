-- Consumers and their cursors.
create table headrace_internal.consumer (
    consumer_id   bigint     not null generated always as identity,
    topic_id      integer     not null,
    consumer      text        not null,
    -- 'partition': one cursor per partition, handled in parallel. 'topic': one cursor over the whole topic.
    ordered_by    text        not null default 'partition',
    -- Failure policy: the number of attempts (null: no limit), the pauses between them, and what happens then.
    attempts_max  integer,
    backoff_s     double precision not null default 1,
    backoff_max_s double precision not null default 300,
    when_exhausted text       not null default 'stop',
    -- After a failed event became a dead letter: do later events of its key wait behind it, or continue?
    key_order     text        not null default 'hold',
    -- Only events for which it is true are handled; null: all.
    condition     text,
    -- The condition as SQL, printed by a node from its parsed form, never the text of a user. Null until a node has compiled it.
    filter        text,
    -- Why the condition cannot be compiled.
    condition_error text,
    -- How long a session that handles events may be idle, before the server ends it and the next claim takes over.
    session_limit_s double precision not null default 60,
    -- For how long its events may wait for company from commit to handler, so that a step has several: see docs/operations.md.
    latency_ms    integer     not null default 10,
    created_at    timestamptz not null default headrace.clock(),
    constraint consumer_pkey primary key (consumer_id),
    constraint consumer_name_unique unique (topic_id, consumer),
    constraint consumer_topic_exists foreign key (topic_id) references headrace_internal.topic (topic_id) on delete cascade,
    constraint consumer_name_rule check (consumer ~ '^[a-z][a-z0-9_.-]{0,99}$'),
    constraint consumer_ordered_by_known check (ordered_by in ('partition', 'topic')),
    constraint consumer_attempts_positive check (attempts_max > 0),
    constraint consumer_backoff_positive check (backoff_s > 0 and backoff_max_s >= backoff_s),
    -- This also rules out infinity and NaN, with which no retry could be planned.
    constraint consumer_backoff_up_to_a_year check (backoff_max_s <= 31536000),
    constraint consumer_when_exhausted_known check (when_exhausted in ('stop', 'dead_letter')),
    constraint consumer_key_order_known check (key_order in ('hold', 'skip')),
    constraint consumer_condition_100000_bytes check (octet_length(condition) <= 100000),
    constraint consumer_session_limit_up_to_a_day check (session_limit_s > 0 and session_limit_s <= 86400),
    constraint consumer_latency_up_to_a_minute check (latency_ms between 0 and 60000),
    constraint consumer_filter_has_condition check (condition is not null or (filter is null and condition_error is null))
);

-- Conditions to compile.
create index consumer_pending on headrace_internal.consumer (consumer_id)
where condition is not null and filter is null and condition_error is null;

-- The progress of a consumer. Whoever locks the row may handle the partition; the lock ends with the
-- transaction, so a dead process holds nothing. Partition -1: the one cursor over the whole topic.
create table headrace_internal.cursor (
    consumer_id bigint     not null,
    partition   integer     not null,
    position    bigint      not null,
    state       text        not null default 'running',
    -- Counts the attempts of the event right after the position.
    attempts    integer     not null default 0,
    retry_at    timestamptz,
    -- Class and message of the last error, and where it was raised.
    error       text,
    traceback   text,
    -- After a failed batch, events up to this position are handled one by one, to find the failing one.
    single_to   bigint      not null default 0,
    -- Where a claim of a single event was lost with its session: if the cursor still stands there, the event is handled alone on its
    -- node, so that a further loss is its own.
    lost_at     bigint,
    moved_at    timestamptz not null default headrace.clock(),
    constraint cursor_pkey primary key (consumer_id, partition),
    constraint cursor_consumer_exists foreign key (consumer_id) references headrace_internal.consumer (consumer_id) on delete cascade,
    constraint cursor_state_known check (state in ('running', 'stopped'))
) with (fillfactor = 50);

-- Which transaction has claimed a cursor last: claims lock its row here, PostgreSQL keeps that as the row's xmax, and a crash leaves it
-- there. Nothing else locks a row or writes one. See headrace.claim_events.
create table headrace_internal.claim (
    consumer_id bigint  not null,
    partition   integer not null,
    constraint claim_pkey primary key (consumer_id, partition),
    constraint claim_cursor_exists foreign key (consumer_id, partition)
        references headrace_internal.cursor (consumer_id, partition) on delete cascade
);

-- Retries that become due.
create index cursor_retry on headrace_internal.cursor (retry_at) where retry_at is not null;

-- Events a consumer could not handle ('dead'), and later events of the same key that wait behind them ('behind').
create table headrace_internal.dead_letter (
    dead_letter_id bigint   not null generated always as identity,
    consumer_id bigint     not null,
    partition   integer     not null,
    position    bigint      not null,
    event_id    uuid        not null,
    type        text        not null,
    key         text,
    payload     jsonb       not null,
    -- What a redrive gives to the handler in its place.
    edited_payload jsonb,
    headers     jsonb       not null,
    state       text        not null,
    reason      text        not null,
    error       text,
    traceback   text,
    attempts    integer     not null,
    buried_at   timestamptz not null default headrace.clock(),
    ended_at    timestamptz,
    constraint dead_letter_pkey primary key (dead_letter_id),
    constraint dead_letter_once unique (consumer_id, position),
    constraint dead_letter_consumer_exists foreign key (consumer_id) references headrace_internal.consumer (consumer_id) on delete cascade,
    constraint dead_letter_state_known check (state in ('dead', 'behind', 'redrive', 'redriven', 'discarded'))
);

-- The keys that are held back: read for every batch.
create index dead_letter_held on headrace_internal.dead_letter (consumer_id, key) where state in ('dead', 'behind', 'redrive');

-- Dead letters to be handled again, in order.
create index dead_letter_redrive on headrace_internal.dead_letter (consumer_id, partition, position) where state = 'redrive';

-- Dead letters by what they have in common, to count and page them.
create index dead_letter_group on headrace_internal.dead_letter (consumer_id, reason, (coalesce(headrace_internal.error_group(error), '')), position)
    where state in ('dead', 'behind', 'redrive');
