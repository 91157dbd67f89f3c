"""Checks of consumers, rules, correlators, actions and schedules, and of actions that an application sends by itself: unique keys,
delays, pauses and redriven dead letters."""

from __future__ import annotations

from collections import Counter, defaultdict
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from uuid import UUID

from headrace.lang.condition import Sample, parse, to_python
from headrace.lang.ecl import Event, Interpreter, InterpreterState, parse as parse_pattern
from headrace.prove.checks.result import Findings, Violation, check
from headrace.prove.checks.timing import LEASE_FAULTS, Excuses
from headrace.prove.definitions import PATTERNS, RULES, Pattern
from headrace.prove.evidence import ConsumedEvent, Effect, Evidence, Firing, HandlerStarted, Output
from headrace.prove.workload import (
    ALERTS,
    ATTEMPTS_MAX,
    CONSUMERS,
    EXPIRING,
    LATER,
    MEND,
    ORDERS,
    POISON,
    SHIP,
    TICKS,
    TRIPS,
    TROUBLE,
)

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
POISON_ATTEMPTS_MAX = 2
EFFECTS_PROMISE = "effects through the transaction happen exactly once"
SENT = frozenset({LATER, MEND})
"""Actions that no rule or correlator sends: checks of their own look at them."""
OutputIdentity = tuple[str, str, datetime]
"""Key, token and time of an output."""


@check(EFFECTS_PROMISE)
def consumed_once(evidence: Evidence) -> Findings:
    """Every consumer handles every position once, or has it as a dead letter: never both, never neither."""
    handled = Counter((consumed.consumer, consumed.position) for consumed in evidence.consumed)
    dead_letters = {(letter.consumer, letter.position): letter for letter in evidence.dead_letters}
    heads = {
        consumer: evidence.expiring_head if topic == EXPIRING else len(evidence.log.get(topic, ()))
        for consumer, topic in CONSUMERS.items()
    }
    for consumer, topic in CONSUMERS.items():
        for position in range(1, heads[consumer] + 1):
            count, letter = handled[consumer, position], dead_letters.get((consumer, position))
            if count + (letter is not None) != 1:
                state = f", and a dead letter ({letter.state})" if letter else ""
                example = f"{consumer} {topic} {position}: {count} times{state}"
                yield Violation("a position was not handled exactly once", (example,))
    for (consumer, position), count in handled.items():
        if position > heads[consumer]:
            example = f"{consumer} {CONSUMERS[consumer]} {position}: {count} times"
            yield Violation("a position was handled that is not in the log", (example,))
    return len(evidence.consumed)


@check("a partition is handled in order")
def consumed_in_order(evidence: Evidence) -> Findings:
    """A consumer handles a partition's events in the order of their positions."""
    by_partition: dict[tuple[str, int], list[ConsumedEvent]] = defaultdict(list)
    for consumed in sorted(evidence.consumed, key=lambda consumed: consumed.seq):
        by_partition[consumed.consumer, consumed.partition].append(consumed)
    for events in by_partition.values():
        for consumed, following in pairwise(events):
            if following.position <= consumed.position:
                yield Violation("a consumer handled a later position first", (str(consumed), str(following)))
    return len(evidence.consumed)


@check("one value per position")
def consumed_matches_log(evidence: Evidence) -> Findings:
    """The event that a handler got at a position is the event in the log."""
    ids = {(topic, event.position): event.id for topic, events in evidence.log.items() for event in events}
    for consumed in evidence.consumed:
        topic = CONSUMERS[consumed.consumer]
        logged_id = ids.get((topic, consumed.position))
        if topic != EXPIRING and logged_id != consumed.event_id:
            yield Violation("a handler got another event", (str(consumed), f"the log has {logged_id}"))
    return len(evidence.consumed)


@check("poison becomes a dead letter, the rest flows")
def poison_becomes_dead_letter(evidence: Evidence) -> Findings:
    """Poison becomes a dead letter after its attempts; later events of its key wait behind it; no other event does."""
    letters = {(letter.consumer, letter.position): letter for letter in evidence.dead_letters}
    events = evidence.log.get(TROUBLE, ())
    consumers = [consumer for consumer, topic in CONSUMERS.items() if topic == TROUBLE]
    for consumer in consumers:
        poisoned: set[str | None] = set()
        for event in events:
            letter = letters.get((consumer, event.position))
            state = letter.state if letter else None
            # Poison behind poison waits as well: it is not tried before the first is resolved.
            expected = "behind" if event.key in poisoned else "dead" if event.type == POISON else None
            if state != expected:
                example = f"{consumer} {TROUBLE} {event.position} {event.type} key {event.key}"
                yield Violation(f"an event is {state}, not {expected}", (example,))
            if event.type == POISON:
                poisoned.add(event.key)
            if letter and letter.attempts > POISON_ATTEMPTS_MAX:
                yield Violation("more attempts than allowed", (str(letter),))
    return len(events) * len(consumers)


@check("each rule fires exactly once per position where it is true")
def firings_match_rules(evidence: Evidence) -> Findings:
    """A rule fired once wherever its condition, evaluated in Python over the final log, is true; and nowhere else."""
    expected: set[tuple[str, str, int]] = set()
    for rule in RULES:
        condition = to_python(parse(rule.condition))
        for event in evidence.log.get(rule.topic, ()):
            if event.type == rule.event_type and condition(event) is True:  # type: ignore[arg-type]
                expected.add((rule.name, rule.topic, event.position))
    firings = Counter((firing.rule, firing.topic, firing.position) for firing in evidence.firings)
    for identity in sorted(expected - set(firings)):
        yield Violation("a rule did not fire", ("{} at {} {}".format(*identity),))
    for identity, count in firings.items():
        if identity not in expected:
            yield Violation("a rule fired where its condition is false", ("{} at {} {}".format(*identity),))
        elif count > 1:
            yield Violation(f"a rule fired {count} times", ("{} at {} {}".format(*identity),))
    return len(expected)


@check("correlators push what a replay pushes")
def outputs_match_replay(evidence: Evidence) -> Findings:
    """Correlators pushed what an interpreter pushes when it replays the final log, timers included."""
    outputs: dict[str, Counter[OutputIdentity]] = defaultdict(Counter)
    for output in evidence.outputs:
        outputs[output.correlator][output.key, output.token, output.output_at] += 1
    for name, pattern in PATTERNS.items():
        expected = replay(evidence, pattern)
        for identity, count in sorted((expected - outputs[name]).items()):
            yield Violation(f"an output is missing {count} times", (f"{name}: {_describe_output(identity)}",))
        for identity, count in sorted((outputs[name] - expected).items()):
            yield Violation(f"an output was pushed {count} times too often", (f"{name}: {_describe_output(identity)}",))
    return len(evidence.outputs)


def _describe_output(identity: OutputIdentity) -> str:
    key, token, at = identity
    return f"{token} of key {key} at {at.isoformat()}"


def replay(evidence: Evidence, pattern: Pattern) -> Counter[OutputIdentity]:
    """Every output by the interpreter: over each key's events, and then over the time to the end of the run."""
    engine = Interpreter(parse_pattern(pattern.text))
    states: dict[str, InterpreterState] = {}
    outputs: Counter[OutputIdentity] = Counter()
    for event in evidence.log.get(pattern.topic, ()):
        key = event.key or ""
        now = _micros(event.appended_at)
        state = states.get(key) or engine.start(now)
        subject = Sample(event.payload, event.type, key=key)  # type: ignore[arg-type]
        states[key], pushed = engine.step(state, Event(event.type, now, subject))
        outputs.update((key, output.token, EPOCH + timedelta(microseconds=output.time)) for output in pushed)
    if evidence.finished_at is not None:
        for key, state in states.items():
            _, pushed = engine.advance(state, _micros(evidence.finished_at))
            outputs.update((key, output.token, EPOCH + timedelta(microseconds=output.time)) for output in pushed)
    return outputs


def _micros(moment: datetime) -> int:
    return (moment - EPOCH) // timedelta(microseconds=1)


@check("an output becomes one event")
def outputs_arrive(evidence: Evidence) -> Findings:
    """Every output that becomes an event is one event of its topic."""
    counts = Counter(event.id for event in evidence.log.get(ALERTS, ()))
    outputs = {output.output_id: output for output in evidence.outputs if output.becomes == "event"}
    for output_id, output in outputs.items():
        if counts[output_id] != 1:
            yield Violation(f"an output became {counts[output_id]} events", (str(output),))
    for event_id in counts.keys() - outputs.keys():
        yield Violation("an event of a correlator has no output", (str(event_id),))
    return len(outputs)


@check("a batch on Spark is one transaction with all its effects")
def pipeline_writes_once(evidence: Evidence) -> Findings:
    """For a topic on Spark: the ledger of its batches has every firing and output once, and reaches the end of the log."""
    totals = evidence.pipeline
    if totals is None:
        return 0
    correlators = {name for name, pattern in PATTERNS.items() if pattern.topic == TRIPS}
    compared = {
        "firings": (totals.firings, sum(firing.topic == TRIPS for firing in evidence.firings)),
        "outputs": (totals.outputs, sum(output.correlator in correlators for output in evidence.outputs)),
        "positions": (totals.upto, len(evidence.log.get(TRIPS, ()))),
    }
    for kind, (in_ledger, stored) in compared.items():
        if in_ledger != stored:
            example = f"{kind}: {in_ledger} in the ledger of {totals.batches} batches, {stored} stored"
            yield Violation(f"the pipeline's batches do not add up to the {kind}", (example,))
    return totals.batches


def _causes(evidence: Evidence) -> dict[UUID, Firing | Output]:
    """What caused each action."""
    causes: dict[UUID, Firing | Output] = {firing.action_id: firing for firing in evidence.firings}
    causes |= {output.output_id: output for output in evidence.outputs if output.becomes == "action"}
    return causes


@check("each action is done once, or dead after its attempts")
def actions_end_once(evidence: Evidence) -> Findings:
    """Each action is done once, or dead after all its attempts; no action ended that nothing caused."""
    causes = _causes(evidence)
    ends: dict[UUID, list[str]] = defaultdict(list)
    results = [result for result in evidence.action_results if result.action not in SENT]
    for result in results:
        ends[result.action_id].append(f"{result.outcome} {result.action} after {result.attempts} attempts")
    for action_id, cause in causes.items():
        if len(ends.get(action_id, ())) != 1:
            yield Violation(f"an action ended {len(ends.get(action_id, ()))} times", (str(cause), *ends.get(action_id, ())))
    for action_id in ends.keys() - causes.keys():
        yield Violation("an action ended that nothing caused", (str(action_id), *ends[action_id]))
    for result in results:
        attempts_max = POISON_ATTEMPTS_MAX if result.action == "explode" else ATTEMPTS_MAX
        if result.attempts > attempts_max:
            yield Violation("more attempts than allowed", (str(result),))
        elif result.outcome == "dead" and result.attempts < attempts_max:
            yield Violation("dead before its attempts were used up", (str(result),))
    return len(causes)


@check(EFFECTS_PROMISE)
def effects_once(evidence: Evidence) -> Findings:
    """A handler's effect is there once if its action is done, and not at all if it is dead."""
    effects: dict[UUID, list[Effect]] = defaultdict(list)
    for effect in evidence.effects:
        if effect.action not in SENT:
            effects[effect.action_id].append(effect)
    results = {result.action_id: result for result in evidence.action_results if result.action not in SENT}
    for action_id, result in results.items():
        expected = 1 if result.outcome == "done" else 0
        written = effects.get(action_id, ())
        if len(written) != expected:
            message = f"the effect of an action happened {len(written)} times, not {expected}"
            yield Violation(message, (str(result), *map(str, written)))
    for action_id in effects.keys() - results.keys():
        yield Violation("an effect of an action that did not end", (str(action_id),))
    return len(results)


@check("ordered actions of a key run in the order of sending")
def ordered_by_key(evidence: Evidence) -> Findings:
    """Actions of one key whose handler asks for order took effect in the order in which they were sent."""
    keys = {event.position: event.key for event in evidence.log.get(ORDERS, ())}
    positions = {firing.action_id: firing.position for firing in evidence.firings if firing.rule == SHIP}
    effects = [effect for effect in sorted(evidence.effects, key=lambda effect: effect.seq) if effect.action_id in positions]
    by_key: dict[str | None, list[Effect]] = defaultdict(list)
    for effect in effects:
        by_key[keys.get(positions[effect.action_id])].append(effect)
    for key, ordered in by_key.items():
        for effect, following in pairwise(ordered):
            if positions[following.action_id] < positions[effect.action_id]:
                yield Violation("an action overtook an earlier one of its key", (f"key {key}: {effect}", str(following)))
    return len(effects)


@check("exactly one event per tick")
def ticks_once(evidence: Evidence) -> Findings:
    """Every tick of the schedule is one event; its topic has no other event."""
    events = Counter(event.id for event in evidence.log.get(TICKS, ()))
    ids = Counter(tick.event_id for tick in evidence.ticks if tick.event_id)
    recorded = {tick.tick_at for tick in evidence.ticks}
    by_event = {tick.event_id: tick for tick in evidence.ticks}
    for event_id, count in ids.items():
        if count != 1 or events[event_id] != 1:
            yield Violation(f"a tick became {events[event_id]} events", (str(by_event[event_id]),))
    for event_id in events.keys() - ids.keys():
        yield Violation("an event of the schedule has no tick", (str(event_id),))
    for tick_at in evidence.expected_ticks:
        if tick_at not in recorded:
            yield Violation("a tick never fired", (tick_at.isoformat(),))
    for tick in evidence.ticks:
        if tick.outcome != "fired":
            yield Violation(f"a tick was {tick.outcome}, though the schedule fires all missed ticks", (str(tick),))
    for tick, following in pairwise(sorted(evidence.ticks, key=lambda tick: tick.tick_at)):
        if tick.tick_at == following.tick_at:
            yield Violation("a tick fired twice", (str(tick), str(following)))
    return len(evidence.expected_ticks)


CLOCK_S = 0.5
"""How far the clocks of server and nodes may differ."""


@check("an action with a unique key is sent once while it is queued")
def unique_once(evidence: Evidence) -> Findings:
    """Of the sends of one unique key, while the first waits in the queue, one takes effect."""
    sent = [action for action in evidence.sent_actions if action.action == LATER]
    effects = Counter(effect.action_id for effect in evidence.effects)
    for action in sent:
        if (count := sum(effects[id_] for id_ in action.ids)) != 1:
            yield Violation(f"an action with a unique key took effect {count} times", (str(action),))
    return len(sent)


@check("no action is handled before its time")
def not_before_its_time(evidence: Evidence) -> Findings:
    """No action is handled before its delay is over, except by a node with another clock."""
    due = {id_: action for action in evidence.sent_actions if action.action == LATER for id_ in action.ids}
    excuses = Excuses(evidence, frozenset({"clock"}))
    started = [record for record in evidence.handler_records if isinstance(record, HandlerStarted) and record.action_id in due]
    for record in started:
        if record.at < due[record.action_id].not_before - CLOCK_S and not excuses.cover(record.at):
            yield Violation("an action was handled before its time", (str(due[record.action_id]), str(record)))
    return len(started)


@check("nothing new starts while paused")
def nothing_starts_paused(evidence: Evidence) -> Findings:
    """No handler of a paused action starts, except on a node that was stopped or cut off while it held the action."""
    ids = {id_ for action in evidence.sent_actions if action.action == LATER for id_ in action.ids}
    excuses = Excuses(evidence, LEASE_FAULTS)
    started = [record for record in evidence.handler_records if isinstance(record, HandlerStarted) and record.action_id in ids]
    for pause in evidence.pauses:
        for record in started:
            if pause.at < record.at < pause.until and not excuses.cover(record.at):
                yield Violation("a handler started while its action was paused", (str(pause), str(record)))
    return sum(pause.until > pause.at for pause in evidence.pauses)


@check("a redriven dead letter is handled once more")
def redriven_once(evidence: Evidence) -> Findings:
    """An action that failed until it was redriven became a dead letter first, and then took effect once."""
    sent = [action for action in evidence.sent_actions if action.action == MEND]
    effects = Counter(effect.action_id for effect in evidence.effects)
    results = Counter((result.action_id, result.outcome) for result in evidence.action_results)
    for action in sent:
        (id_,) = action.ids
        done, dead = results[id_, "done"], results[id_, "dead"]
        if (effects[id_], done) != (1, 1) or not dead:
            counts = f"{dead} times dead, {done} times done, {effects[id_]} effects"
            yield Violation("a redriven action was not handled once", (str(action), counts))
    return len(sent)
