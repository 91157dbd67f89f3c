-- What an operator has paused. Few rows: everything that claims looks here first.
-- Kinds: 'consumer' (also the rules of a topic), 'correlator', 'relay', 'rule', 'action' and 'queue'. A paused schedule is not here: it is
-- not active.
create table headrace_internal.pause (
    namespace   text        not null,
    kind        text        not null,
    -- A consumer is named topic/consumer; the queue of a namespace has no name: ''.
    name        text        not null,
    -- Of a consumer, a correlator and a relay. The pause ends with what is paused.
    consumer_id bigint,
    rule_id     integer,
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
