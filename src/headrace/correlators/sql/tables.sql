-- Correlators: an ECL pattern over a topic, one machine per key. Insert, update and delete manage them; triggers record every change
-- as a version and notify the compilers. status, error, version and since_position are for reading; the truth is in correlator_version.
create table headrace_internal.correlator (
    correlator_id bigint   not null generated always as identity,
    namespace  text        not null default headrace.current_namespace(),
    correlator text        not null,
    topic      text        not null,
    -- Which events belong together: a value of the condition language, such as object ->> 'account' or key. Null: all of the topic.
    key        text,
    pattern    text        not null,
    -- What a token becomes: {"token": {"action": name, "priority": 0, "delay_s": 0}}, or {"token": {"event": type, "topic": name,
    -- "keyed": true}}.
    outputs    jsonb       not null default '{}',
    -- A key without events for this long is deleted; null: never.
    forget_after interval,
    -- The maximum number of positions kept as evidence, the newest ones.
    evidence_max integer   not null default 100,
    active     boolean     not null default true,
    -- Without this, a correlator whose output events reach itself again is invalid.
    allow_feedback boolean not null default false,
    -- Set to true with a change: all keys start again. The trigger resets it.
    restart    boolean     not null default false,
    -- Who manages it: 'sql', 'app', or the file that defines it.
    source     text        not null default 'sql',
    -- Filled in by the trigger.
    topic_id   integer     not null,
    version    integer     not null default 1,
    status     text        not null default 'pending',
    error      text,
    since_position bigint,
    constraint correlator_pkey primary key (correlator_id),
    constraint correlator_name_unique unique (namespace, correlator),
    constraint correlator_topic_exists foreign key (topic_id) references headrace_internal.topic (topic_id) on delete cascade,
    -- It is part of a consumer's name.
    constraint correlator_name_rule check (correlator ~ '^[a-z][a-z0-9_.-]{0,79}$'),
    constraint correlator_pattern_300000_bytes check (octet_length(pattern) <= 300000),
    constraint correlator_key_100000_bytes check (octet_length(key) <= 100000),
    constraint correlator_outputs_object check (jsonb_typeof(outputs) = 'object'),
    constraint correlator_forget_after_positive check (forget_after > interval '0'),
    constraint correlator_evidence_0_to_10000 check (evidence_max between 0 and 10000),
    constraint correlator_status_known check (status in ('pending', 'valid', 'invalid'))
);
create index correlator_topic on headrace_internal.correlator (topic_id);

-- Rows whose status is not final yet.
create index correlator_pending on headrace_internal.correlator (correlator_id) where status = 'pending';

-- Every version of every correlator, also of dropped ones. Active from since_position to until_position, both included;
-- never active if since_position is null (pending, invalid, not active, or the deletion itself).
create table headrace_internal.correlator_version (
    version_id bigint      not null generated always as identity,
    -- The correlator as it was written, with the outcome of its compilation.
    like headrace_internal.correlator including defaults,
    -- This version is the deletion of the correlator.
    dropped    boolean     not null default false,
    written_at timestamptz not null default headrace.clock(),
    written_by text        not null default session_user,
    -- Warnings: tokens that become nothing, outputs without a token.
    warning    text,
    -- The pattern as it was parsed.
    canonical  text,
    until_position bigint,
    since_at   timestamptz,
    until_at   timestamptz,
    -- How many keys kept their state from the version before, and how many start again.
    carried    bigint,
    restarted  bigint,
    constraint correlator_version_pkey primary key (version_id),
    constraint correlator_version_unique unique (correlator_id, version),
    constraint correlator_version_topic_exists foreign key (topic_id) references headrace_internal.topic (topic_id) on delete cascade,
    constraint correlator_version_status_known check (status in ('pending', 'valid', 'invalid'))
);

-- Versions that wait for the compiler; their correlators must not continue before it is done.
create index correlator_version_pending on headrace_internal.correlator_version (correlator_id, version_id) where status = 'pending';

-- The active compiled table, one per correlator: the layout of docs/ecl-table.md as JSON, and for a simple one its arrays.
create table headrace_internal.correlator_table (
    correlator_id bigint   not null,
    version_id  bigint     not null,
    consumer_id bigint    not null,
    compiled    text       not null,
    -- The SQL that gives every event after position $1 up to $2 its key and symbol, printed from our own trees. Here, and not in a
    -- function, because every role may read the text of a function.
    classifier  text       not null,
    -- One automaton without timers: headrace_internal.correlate steps it.
    simple      boolean    not null,
    -- The newest version is invalid: keys keep their state until there is a valid one.
    halted      boolean    not null default false,
    symbols     integer    not null,
    -- Each cell (state * symbols + symbol) says where the next state's row begins; and action * 4, + 2 where it leads to the start, + 1
    -- where it moves the machine.
    rows        integer[],
    marks       integer[],
    -- Symbols that change nothing in any state.
    idle        integer[],
    -- The tokens of every action: [[], ["x"], …].
    tokens      jsonb,
    -- The key where the next search for keys to delete starts.
    forget_from text       collate "C" not null default '',
    constraint correlator_table_pkey primary key (correlator_id),
    constraint correlator_table_correlator_exists foreign key (correlator_id)
        references headrace_internal.correlator (correlator_id) on delete cascade,
    constraint correlator_table_consumer_exists foreign key (consumer_id)
        references headrace_internal.consumer (consumer_id) on delete cascade
);

-- Instances: the state of a key's machine. With a simple table, a key without a row is at the start.
create table headrace_internal.correlator_instance (
    correlator_id bigint   not null,
    -- '' for a correlator without a key.
    key         text       collate "C" not null,
    units       integer[]  not null,
    -- Microseconds since 1970, one per timer of the pattern; null: it does not run.
    deadlines   bigint[]   not null default '{}',
    -- The earliest of them.
    deadline    timestamptz,
    started_at  timestamptz not null,
    -- The time of its last recorded event.
    seen_at     timestamptz not null,
    -- The newest positions that moved it since it was last at its start, and how many there were.
    evidence    bigint[]   not null default '{}',
    evidence_total integer not null default 0,
    -- The machines and registers of a table with registers, as JSON that only the engines read.
    memory      text,
    constraint correlator_instance_pkey primary key (correlator_id, key),
    constraint correlator_instance_correlator_exists foreign key (correlator_id)
        references headrace_internal.correlator (correlator_id) on delete cascade
) with (fillfactor = 70);

-- Timers that are due.
create index correlator_instance_due on headrace_internal.correlator_instance (correlator_id, deadline) where deadline is not null;

-- Outputs of correlators: which version pushed which token for which key, on which event or by a timer (position is null), from
-- which evidence, and what it became. Kept as long as the event: headrace_internal.forget_lineage.
create table headrace_internal.correlation (
    correlation_id bigint  not null generated always as identity,
    topic_id    integer    not null,
    version_id  bigint     not null,
    key         text       collate "C" not null,
    position    bigint,
    event_id    uuid,
    token       text       not null,
    -- The event's time, or the deadline of the timer.
    output_at   timestamptz not null,
    -- Its place among the outputs of that event or deadline, from 1.
    place       integer    not null,
    evidence    bigint[]   not null,
    evidence_total integer not null,
    -- 'action' or 'event', its name and its id; null where the token becomes nothing.
    becomes     text,
    name        text,
    output_id   uuid       not null,
    -- What the registers held: {"t.amount": 5, "l.count": 3}; null for a pattern without registers.
    captured    jsonb,
    fired_at    timestamptz not null default headrace.clock(),
    constraint correlation_pkey primary key (correlation_id),
    -- Exactly once.
    constraint correlation_once unique nulls not distinct (version_id, key, position, output_at, place),
    constraint correlation_becomes_known check (becomes in ('action', 'event'))
);
create index correlation_position on headrace_internal.correlation (topic_id, position) where position is not null;
create index correlation_timer on headrace_internal.correlation (topic_id, output_at) where position is null;
