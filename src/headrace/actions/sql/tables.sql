-- Action queues, one per namespace; the actions themselves are in pgmq's tables.
create table headrace_internal.queue (
    namespace text    not null,
    -- An idle node waits for a notification: a sender must send a NOTIFY at commit. Otherwise it must not.
    asleep    boolean not null default true,
    constraint queue_pkey primary key (namespace),
    constraint queue_namespace_exists foreign key (namespace) references headrace_internal.namespace (namespace) on delete cascade
) with (fillfactor = 50);

-- Dropping a queue deletes from these tables of pgmq, which have no primary key but a unique index: publications need a replica
-- identity. They belong to others where somebody else has installed pgmq; then doctor says what to do.
do $$
declare
    v_table regclass;
    v_index name;
begin
    for v_table, v_index in
        select i.indrelid, x.relname
        from pg_index i
        join pg_class x on x.oid = i.indexrelid
        join pg_class c on c.oid = i.indrelid
        where i.indrelid in (to_regclass('pgmq.meta'), to_regclass('pgmq.topic_bindings')) and i.indisunique
            and pg_has_role(c.relowner, 'member')
    loop
        execute format('alter table %s replica identity using index %I', v_table, v_index);
    end loop;
end
$$;

-- Results of actions: 'done', 'dead' (there is a dead letter), 'discarded' (its handler gave it up) or 'cancelled' (by an operator).
-- An action that was redriven has one row per result.
-- Written in the transaction that deletes the action from the queue; deleted by age.
create table headrace_internal.action_result (
    ended_at   timestamptz not null,
    action_id  uuid        not null,
    node_id    uuid,
    duration_s real,
    attempts   integer     not null,
    namespace  text        not null,
    action     text        not null,
    outcome    text        not null,
    -- The event that caused it, if one did: leads to its firing, since the action itself is gone. As text: a cause may hold anything,
    -- and checking it here would cost every ack 6 µs of CPU, a fifth of it (measured). The view shows a uuid.
    event_id   text,
    constraint action_result_outcome_known check (outcome in ('done', 'dead', 'discarded', 'cancelled'))
);

-- Publications need a replica identity. A primary key would cost every ack an index; this costs something under wal_level = logical
-- alone, when rows are deleted by age.
alter table headrace_internal.action_result replica identity full;
-- The key has both columns: the sender of an action chooses its id, and another namespace may use the same.
create index action_result_action on headrace_internal.action_result (action_id, namespace);

-- A brin index would not help: a range of pages keeps its oldest time when rows are deleted, so after a while every range would look old.
create index action_result_age on headrace_internal.action_result (ended_at);

-- Attempts that failed, and what followed: 'retry' at a time, 'dead', or 'discarded'.
create table headrace_internal.attempt (
    failed_at  timestamptz not null default headrace.clock(),
    action_id  uuid        not null,
    node_id    uuid,
    duration_s real,
    attempt    integer     not null,
    namespace  text        not null,
    action     text        not null,
    error      text        not null,
    traceback  text,
    follows    text        not null,
    retry_at   timestamptz,
    -- How many attempts the handler's policy allows.
    attempts_max integer,
    constraint attempt_follows_known check (follows in ('retry', 'dead', 'discarded'))
);
alter table headrace_internal.attempt replica identity full;
create index attempt_action on headrace_internal.attempt (action_id, namespace);
create index attempt_age on headrace_internal.attempt (failed_at);

-- The newest action sent with each unique key. A second one is not sent while the first is in the queue, or before unique_until.
-- Rows of actions that are gone are deleted by headrace_internal.trim_unique_actions.
create table headrace_internal.unique_action (
    namespace    text        not null,
    action       text        not null,
    unique_key   text        not null,
    action_id    uuid        not null,
    -- Its message in the queue.
    msg_id       bigint,
    unique_until timestamptz not null,
    constraint unique_action_pkey primary key (namespace, action, unique_key),
    constraint unique_action_namespace_exists foreign key (namespace) references headrace_internal.namespace (namespace) on delete cascade,
    constraint unique_action_key_1_to_500 check (char_length(unique_key) between 1 and 500)
) with (fillfactor = 50);
create index unique_action_until on headrace_internal.unique_action (unique_until);

-- What an operator has paused. Few rows: everything that claims looks here first.
-- Kinds: 'consumer' (also the rules of a topic), 'correlator', 'relay', 'rule', 'action' and 'queue'. A paused schedule is not here: it is
-- not active.
create table headrace_internal.pause (
    namespace   text        not null,
    kind        text        not null,
    -- A consumer is named topic/consumer; the queue of a namespace has no name: ''.
    name        text        not null,
    -- Set for a consumer, a correlator and a relay. The pause ends with what is paused.
    consumer_id bigint,
    rule_id     bigint,
    reason      text,
    paused_at   timestamptz not null default headrace.clock(),
    paused_by   text        not null default session_user,
    constraint pause_pkey primary key (namespace, kind, name),
    constraint pause_namespace_exists foreign key (namespace) references headrace_internal.namespace (namespace) on delete cascade,
    constraint pause_consumer_exists foreign key (consumer_id) references headrace_internal.consumer (consumer_id) on delete cascade,
    constraint pause_rule_exists foreign key (rule_id) references headrace_internal.rule (rule_id) on delete cascade,
    constraint pause_kind_known check (kind in ('consumer', 'correlator', 'relay', 'rule', 'action', 'queue')),
    constraint pause_has_its_subject check ((consumer_id is not null) = (kind in ('consumer', 'correlator', 'relay')) and (rule_id is not null) = (kind = 'rule')),
    constraint pause_reason_1000 check (char_length(reason) <= 1000)
);
create unique index pause_consumer on headrace_internal.pause (consumer_id) where consumer_id is not null;
create unique index pause_rule on headrace_internal.pause (rule_id) where rule_id is not null;
