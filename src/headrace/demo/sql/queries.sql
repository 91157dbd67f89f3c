-- name: airport_totals
-- Selects the consumer's counts over all airports.
select coalesce(sum(a.departures), 0)::bigint as departures, coalesce(sum(a.arrivals), 0)::bigint as arrivals,
    coalesce(sum(a.cancelled), 0)::bigint as cancelled, coalesce(sum(a.delay_min), 0)::bigint as delay_min
from airport a;

-- name: busiest
-- Selects the airports with the most flights.
select a.airport, a.departures, a.arrivals, a.cancelled,
    case when a.departures > 0 then round(a.delay_min::numeric / a.departures, 1)::double precision end as mean_delay_min
from airport a order by a.departures + a.arrivals desc, a.airport limit 6;

-- name: correlator_totals
-- Selects how often correlators pushed each token, and how many of its actions or events are done.
select h.correlator, h.token, min(h.name) as becomes, count(*) as outputs,
    count(*) filter (where e.outcome = 'done' or l.event_id is not null) as done
from headrace.correlation_history h
left join headrace_internal.action_result e on h.becomes = 'action' and e.action_id = h.output_id
left join headrace_internal.log l on h.becomes = 'event' and l.event_id = h.output_id and l.topic_id = (select headrace.topic_id('operations'))
group by h.correlator, h.token
order by h.correlator, h.token;

-- name: count_flights
-- Adds the counts of a batch to the airports. Locks: the rows of the airports, in the order of the arrays.
insert into airport as a (airport, departures, arrivals, cancelled, delay_min)
select n.airport, n.departures, n.arrivals, n.cancelled, n.delay_min
from unnest(%(airports)s::text[], %(departures)s::bigint[], %(arrivals)s::bigint[], %(cancelled)s::bigint[], %(delay_min)s::bigint[])
    n (airport, departures, arrivals, cancelled, delay_min)
on conflict (airport) do update
set departures = a.departures + excluded.departures, arrivals = a.arrivals + excluded.arrivals,
    cancelled = a.cancelled + excluded.cancelled, delay_min = a.delay_min + excluded.delay_min;

-- name: count_logged
-- Selects how many of these events are in the log. Index: log_event_id.
select count(*) from headrace_internal.log l where l.topic_id = (select headrace.topic_id('flights')) and l.event_id = any(%(ids)s);

-- name: live_handled
-- When each of these events was handled: the end of its batch. Index: log_event_id.
select l.event_id, min(b.handled_at)
from headrace_internal.log l
join handled_batch b on b.partition = l.partition and l.position between b.first_position and b.last_position
where l.topic_id = (select headrace.topic_id('flights')) and l.event_id = any(%(ids)s)
group by l.event_id;

-- name: log_totals
-- Counts in the flights' log: events, positions, ids, and events out of the order of time.
select count(*) as events, coalesce(min(o.position), 0) as first_position, coalesce(max(o.position), 0) as last_position,
    count(distinct o.position) as positions, count(distinct o.event_id) as ids,
    count(*) filter (where o.emitted_at < o.before) as out_of_order
from (
    select l.position, l.event_id, l.emitted_at, lag(l.emitted_at) over (order by l.position) as before
    from headrace_internal.log l where l.topic_id = (select headrace.topic_id('flights'))
) o;

-- name: outcome_totals
-- Events of the flights matched by a rule and by none, and the effects of the handlers for passengers.
select (select count(distinct h.event_id) from headrace.event_history h) as matched,
    (select count(*) from headrace.event_unmatched u where u.topic = %(topic)s) as unmatched,
    (select count(*) from care) as cared;

-- name: progress
-- Progress of the demo: events in the log, handled, late, notices; positions of rules and correlators; actions sent and ended;
-- pending work: timers that are due, events of correlators in the outbox.
-- Index: log_position backwards.
select coalesce((select h.position from headrace.log_head(headrace.topic_id('flights')) h), 0)::bigint as in_log,
    (select coalesce(sum(b.events), 0) from handled_batch b)::bigint as handled,
    coalesce((select h.position from headrace.log_head(headrace.topic_id('delays')) h), 0)::bigint as late,
    (select count(*) from notice) as notices,
    coalesce((select u.position from headrace_internal.consumer c join headrace_internal.cursor u on u.consumer_id = c.consumer_id
        where c.topic_id = headrace.topic_id('flights') and c.consumer = 'headrace.rules'), 0)::bigint as matched_to,
    coalesce((select min(u.position) from headrace_internal.consumer c join headrace_internal.cursor u on u.consumer_id = c.consumer_id
        where c.topic_id = headrace.topic_id('flights') and c.consumer like 'headrace.correlator.%%'), 0)::bigint as correlated_to,
    (select count(*) from headrace_internal.firing) + (select count(*) from headrace_internal.correlation c where c.becomes = 'action') as actions_sent,
    (select count(*) from headrace_internal.action_result) as actions_ended,
    (select count(*) from headrace_internal.correlator_instance i where i.deadline <= headrace.log_clock(headrace.topic_id('flights')))
        + (select count(*) from headrace_internal.outbox) as pending;

-- name: record_batch
-- Records when a batch was handled.
insert into handled_batch (partition, first_position, last_position, events) values (%s, %s, %s, %s);

-- name: record_care
-- Records what was done for the passengers of a flight. The primary key rejects a repetition.
insert into care (action_id, action, flight, dest, delay_min)
values (%(action_id)s, %(action)s, %(flight)s, %(dest)s, %(delay_min)s);

-- name: record_dispatch
-- Records what was done about an aircraft or an airport. The primary key rejects a repetition.
insert into dispatch (action_id, action, key) values (%(action_id)s, %(action)s, %(key)s);

-- name: record_notice
-- Records the notice for one late flight.
insert into notice (position, tailnum, origin, dest, delay_min) values (%s, %s, %s, %s, %s);

-- name: rule_totals
-- Selects how often each rule fired, and how its actions ended. Index: action_result_action.
select r.rule, r.action, count(f.firing_id) as firings, count(*) filter (where e.outcome = 'done') as done,
    count(*) filter (where e.outcome = 'dead') as dead
from headrace_internal.rule r
left join headrace_internal.rule_version v on v.rule_id = r.rule_id
left join headrace_internal.firing f on f.rule_version_id = v.version_id
left join headrace_internal.action_result e on e.action_id = f.action_id
group by r.rule, r.action
order by r.rule;

-- name: tables
-- Creates the demo's own tables, as an application has them: outside the schema headrace.
create table airport (
    airport    text   not null primary key,
    departures bigint not null default 0,
    arrivals   bigint not null default 0,
    cancelled  bigint not null default 0,
    delay_min  bigint not null default 0
) with (fillfactor = 50);
create table handled_batch (
    partition      integer     not null,
    first_position bigint      not null,
    last_position  bigint      not null,
    events         integer     not null,
    handled_at     timestamptz not null default clock_timestamp()
);
create table notice (
    position   bigint      not null primary key,
    tailnum    text,
    origin     text        not null,
    dest       text        not null,
    delay_min  integer     not null,
    created_at timestamptz not null default clock_timestamp()
);
create table care (
    action_id uuid        not null primary key,
    action    text        not null,
    flight    text        not null,
    dest      text        not null,
    delay_min integer,
    done_at   timestamptz not null default clock_timestamp()
);
create table dispatch (
    action_id uuid        not null primary key,
    action    text        not null,
    key       text        not null,
    done_at   timestamptz not null default clock_timestamp()
);
