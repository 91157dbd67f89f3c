-- Rules. Users write them through the view headrace.rule. Triggers record every change as a version and notify the compilers.
-- status, error, version and since_position are for reading; the truth about them is in rule_version.
create table headrace_internal.rule (
    rule_id    bigint      not null generated always as identity,
    namespace  text        not null default headrace.current_namespace(),
    rule       text        not null,
    topic      text        not null,
    event_type text        not null,
    condition  text        not null default 'true',
    action     text        not null,
    priority   integer     not null default 0,
    delay_s    integer     not null default 0,
    -- 'after': as a consumer of the log. 'inline': in the publisher's own transaction.
    timing     text        not null default 'after',
    active     boolean     not null default true,
    -- Who manages it: 'sql', 'app', or the file that defines it. Applying a file drops only rules of that file.
    source     text        not null default 'sql',
    -- Filled in by the trigger.
    topic_id   integer     not null,
    version    integer     not null default 1,
    status     text        not null default 'pending',
    error      text,
    since_position bigint,
    constraint rule_pkey primary key (rule_id),
    constraint rule_name_unique unique (namespace, rule),
    constraint rule_topic_exists foreign key (topic_id) references headrace_internal.topic (topic_id) on delete cascade,
    constraint rule_name_rule check (rule ~ '^[A-Za-z_][A-Za-z0-9_.:/ -]{0,199}$'),
    constraint rule_event_type_rule check (event_type ~ '^[A-Za-z_][A-Za-z0-9_.:/-]*( [A-Za-z0-9_.:/-]+)*$' and length(event_type) <= 200),
    constraint rule_action_rule check (action ~ '^[A-Za-z_][A-Za-z0-9_.:/-]{0,199}$'),
    -- The condition language rejects more than 10 000 characters; this only limits what is stored.
    constraint rule_condition_100000_bytes check (octet_length(condition) <= 100000),
    constraint rule_delay_0_to_1_year check (delay_s between 0 and 31622400),
    constraint rule_timing_known check (timing in ('after', 'inline')),
    constraint rule_status_known check (status in ('pending', 'valid', 'invalid'))
);
create index rule_topic on headrace_internal.rule (topic_id);

-- Rows whose status is not final yet.
create index rule_pending on headrace_internal.rule (rule_id) where status = 'pending';

-- Every version of every rule, also of dropped ones. Active from since_position to until_position, both included;
-- never active if since_position is null (pending, invalid, not active, or the deletion itself).
create table headrace_internal.rule_version (
    version_id bigint      not null generated always as identity,
    -- The rule as it was written, with the outcome of its compilation.
    like headrace_internal.rule including defaults,
    -- This version is the deletion of the rule.
    dropped    boolean     not null default false,
    written_at timestamptz not null default headrace.clock(),
    written_by text        not null default session_user,
    -- The condition as it was parsed.
    canonical  text,
    -- The same as SQL, printed from our own tree: for headrace.evaluate and the reasons of headrace.event_unmatched.
    filter     text,
    until_position bigint,
    since_at   timestamptz,
    until_at   timestamptz,
    constraint rule_version_pkey primary key (version_id),
    constraint rule_version_unique unique (rule_id, version),
    constraint rule_version_topic_exists foreign key (topic_id) references headrace_internal.topic (topic_id) on delete cascade,
    constraint rule_version_status_known check (status in ('pending', 'valid', 'invalid'))
);

-- Versions that wait for the compiler; their topics must not continue before it is done.
create index rule_version_pending on headrace_internal.rule_version (topic_id, version_id) where status = 'pending';

-- The versions that were active at a position.
create index rule_version_in_force on headrace_internal.rule_version (topic_id, since_position) where since_position is not null;

-- Shapes: conditions of a topic that differ only in their constants. Each is one join of the topic's match function.
create table headrace_internal.rule_shape (
    shape_id bigint  not null generated always as identity,
    topic_id integer not null,
    timing   text    not null,
    shape    text    not null,
    -- The lengths of the prefixes, or the levels of the blocks, that occur in the keys: an event asks for a key of each.
    variants integer[] not null default '{}',
    constraint rule_shape_pkey primary key (shape_id),
    constraint rule_shape_topic_exists foreign key (topic_id) references headrace_internal.topic (topic_id) on delete cascade
);

-- The index has the checksum: the text of a shape may be longer than an index entry.
create unique index rule_shape_once on headrace_internal.rule_shape (topic_id, timing, md5(shape));

-- The constants of the active versions, found by shape, event type and a key ('' if the shape has none), and within a key by a bound.
-- A version has a row for each of its keys: the items of a list, or the blocks that a range touches.
create table headrace_internal.rule_match (
    shape_id   bigint  not null,
    version_id bigint  not null,
    key_number integer not null default 1,
    since_position bigint not null,
    event_type text    not null collate "C",
    key        text    not null collate "C",
    -- The constant of a comparison with a number or moment, or with a text.
    bound      double precision,
    bound_text text    collate "C",
    integers   bigint[],
    numerics   numeric[],
    texts      text[],
    moments    timestamptz[],
    constraint rule_match_pkey primary key (version_id, key_number),
    constraint rule_match_shape_exists foreign key (shape_id) references headrace_internal.rule_shape (shape_id) on delete cascade,
    constraint rule_match_version_exists foreign key (version_id) references headrace_internal.rule_version (version_id) on delete cascade
);
create index rule_match_access on headrace_internal.rule_match (shape_id, event_type, key, bound, bound_text);

-- Programs: the SQL that evaluates the rules of a topic, printed from our own trees. Here, and not in functions, because every role may
-- read the text of a function. Kinds: 'after' runs on a batch of the log; 'inline' runs in the publisher's transaction, and its text has no
-- constants and no field names, which are in the arrays; 'late' runs inline rules on events of the log whose inline evaluation failed.
create table headrace_internal.rule_program (
    topic_id integer not null,
    kind     text    not null,
    -- It covers the whole program, and is part of the name under which a session has prepared it.
    checksum text    not null,
    program  text    not null,
    integers bigint[] not null,
    numerics numeric[] not null,
    texts    text[]  not null,
    moments  timestamptz[] not null,
    constraint rule_program_pkey primary key (topic_id, kind),
    constraint rule_program_topic_exists foreign key (topic_id) references headrace_internal.topic (topic_id) on delete cascade,
    constraint rule_program_kind_known check (kind in ('after', 'inline', 'late'))
);

-- Events whose inline evaluation failed: their inline rules are evaluated after the log, by headrace_internal.react_late.
create table headrace_internal.inline_failure (
    topic_id  integer     not null,
    event_id  uuid        not null,
    error     text        not null,
    failed_at timestamptz not null default headrace.clock()
);
alter table headrace_internal.inline_failure replica identity full;
create index inline_failure_topic on headrace_internal.inline_failure (topic_id);

-- Firings: which version fired on which event, with which action. An inline firing gets its position when the rules'
-- cursor reaches the event. Kept as long as the event: headrace_internal.forget_lineage.
create table headrace_internal.firing (
    firing_id  bigint      not null generated always as identity,
    topic_id   integer     not null,
    position   bigint,
    event_id   uuid        not null,
    rule_version_id bigint not null,
    action     text        not null,
    action_id  uuid        not null,
    fired_at   timestamptz not null default headrace.clock(),
    constraint firing_pkey primary key (firing_id),
    -- Exactly once: an event id has one position in a topic, and a version one topic.
    constraint firing_once unique (event_id, rule_version_id)
);

-- Firings by event; those without a position are at the end.
create index firing_position on headrace_internal.firing (topic_id, position);

-- A match of a rule: all that a firing and its action need of the event.
create type headrace_internal.rule_hit as (
    version_id bigint,
    "position" bigint,
    event_id   uuid,
    event_type text,
    key        text,
    payload    jsonb,
    emitted_at timestamptz,
    producer   text,
    -- Its trace context, see headrace_internal.trace_headers.
    trace      jsonb
);
