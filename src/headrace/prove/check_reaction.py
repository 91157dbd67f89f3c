"""Checks of consumers, rules, correlators, actions and schedules. Pure: evidence in, verdict out."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import chain, pairwise
from uuid import UUID

from headrace.lang.condition import Sample, parse, to_python
from headrace.lang.ecl import Event, Interpreter, InterpreterState
from headrace.lang.ecl import parse as parse_pattern
from headrace.prove.evidence import Consumed, Evidence, Fired, Pushed
from headrace.prove.verdict import Verdict, Violation, judge
from headrace.prove.workload import (
    ALERTS,
    ATTEMPTS_MAX,
    CONSUMERS,
    EXPIRING,
    PATTERNS,
    POISON,
    RULES,
    TICKS,
    TRIPS,
    TROUBLE,
    Pattern,
)

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
POISON_ATTEMPTS_MAX = 2
PIPELINE_PROMISE = "a batch on Spark is one transaction with all that comes of it"


def consumed_once(evidence: Evidence) -> Verdict:
    """Every position is handled once by every consumer, or is a dead letter of it: never both, never neither."""
    done = Counter((one.consumer, one.position) for one in evidence.consumed)
    put_aside = {(one.consumer, one.position): one for one in evidence.letters}

    def found() -> Iterator[Violation]:
        for consumer, topic in CONSUMERS.items():
            head = evidence.expired_head if topic == EXPIRING else len(evidence.log.get(topic, ()))
            for position in range(1, head + 1):
                count, letter = done[consumer, position], put_aside.get((consumer, position))
                if count + (letter is not None) != 1:
                    state = f", and a dead letter ({letter.state})" if letter else ""
                    yield Violation(
                        "a position was not handled exactly once", (f"{consumer} {topic} {position}: {count} times{state}",)
                    )
        for (consumer, position), count in done.items():
            topic = CONSUMERS[consumer]
            if position > (evidence.expired_head if topic == EXPIRING else len(evidence.log.get(topic, ()))):
                yield Violation(
                    "a position was handled that is not in the log", (f"{consumer} {topic} {position}: {count} times",)
                )

    return judge("consumed-once", "effects through the transaction happen exactly once", len(evidence.consumed), found())


def consumed_in_order(evidence: Evidence) -> Verdict:
    """A consumer handles a partition's events in the order of their positions."""
    rows: dict[tuple[str, int], list[Consumed]] = defaultdict(list)
    for one in sorted(evidence.consumed, key=lambda one: one.seq):
        rows[one.consumer, one.partition].append(one)
    found = (
        Violation("a consumer handled a later position first", (str(one), str(other)))
        for listed in rows.values()
        for one, other in pairwise(listed)
        if other.position <= one.position
    )
    return judge("consumed-in-order", "a partition is handled in order", len(evidence.consumed), found)


def consumed_what_is_there(evidence: Evidence) -> Verdict:
    """What a handler was given at a position is what stands there."""
    at = {(topic, event.position): event.id for topic, events in evidence.log.items() for event in events}

    def found() -> Iterator[Violation]:
        for one in evidence.consumed:
            topic = CONSUMERS[one.consumer]
            if topic != EXPIRING and at.get((topic, one.position)) != one.event_id:
                yield Violation("a handler got another event", (str(one), f"the log has {at.get((topic, one.position))}"))

    return judge("consumed-what-is-there", "one value per position", len(evidence.consumed), found())


def poison_is_put_aside(evidence: Evidence) -> Verdict:
    """Poison ends as a dead letter after its attempts; what follows it on its key waits behind it; nothing else does."""
    letters = {(one.consumer, one.position): one for one in evidence.letters}
    events = evidence.log.get(TROUBLE, ())
    consumers = [consumer for consumer, topic in CONSUMERS.items() if topic == TROUBLE]

    def found(consumer: str) -> Iterator[Violation]:
        poisoned: set[str | None] = set()
        for event in events:
            letter = letters.get((consumer, event.position))
            state = letter.state if letter else None
            # Poison behind poison waits as well: it is not tried before the first is settled.
            expected = "behind" if event.key in poisoned else "dead" if event.type == POISON else None
            if state != expected:
                told = f"{consumer} {TROUBLE} {event.position} {event.type} key {event.key}"
                yield Violation(f"an event is {state}, not {expected}", (told,))
            if event.type == POISON:
                poisoned.add(event.key)
            if letter and letter.attempts > POISON_ATTEMPTS_MAX:
                yield Violation("more attempts than allowed", (str(letter),))

    broken = chain.from_iterable(map(found, consumers))
    return judge("poison-is-put-aside", "poison → dead letter, the rest flows", len(events) * len(consumers), broken)


def firings_are_the_rules(evidence: Evidence) -> Verdict:
    """The rules fired where their conditions, evaluated in Python over the final log, are true: once each, nowhere else."""
    expected: set[tuple[str, str, int]] = set()
    for rule in RULES:
        holds = to_python(parse(rule.condition))
        for event in evidence.log.get(rule.topic, ()):
            if event.type == rule.event_type and holds(event) is True:  # type: ignore[arg-type]
                expected.add((rule.name, rule.topic, event.position))
    fired = Counter((one.rule, one.topic, one.position) for one in evidence.fired)

    def found() -> Iterator[Violation]:
        for place in sorted(expected - set(fired)):
            yield Violation("a rule did not fire", ("{} at {} {}".format(*place),))
        for place, count in fired.items():
            if place not in expected:
                yield Violation("a rule fired where it must not", ("{} at {} {}".format(*place),))
            elif count > 1:
                yield Violation(f"a rule fired {count} times", ("{} at {} {}".format(*place),))

    return judge("firings-are-the-rules", "each rule fires exactly once per position it is true at", len(expected), found())


Output = tuple[str, str, datetime]


def outputs_are_the_replay(evidence: Evidence) -> Verdict:
    """Correlators pushed what an interpreter pushes that replays the final log, silence and timers included."""
    pushed: dict[str, Counter[Output]] = defaultdict(Counter)
    for one in evidence.pushed:
        pushed[one.correlator][one.key, one.token, one.output_at] += 1

    def found() -> Iterator[Violation]:
        for name, pattern in PATTERNS.items():
            expected = replayed(evidence, pattern)
            for output, count in sorted((expected - pushed[name]).items()):
                yield Violation(f"an output is missing {count} times", (f"{name}: {_output(output)}",))
            for output, count in sorted((pushed[name] - expected).items()):
                yield Violation(f"an output is there {count} times too often", (f"{name}: {_output(output)}",))

    return judge("outputs-are-the-replay", "correlators push what a replay pushes", len(evidence.pushed), found())


def _output(output: Output) -> str:
    key, token, at = output
    return f"{token} of key {key} at {at.isoformat()}"


def replayed(evidence: Evidence, pattern: Pattern) -> Counter[Output]:
    """Key, token and time of every output, by the interpreter: each key's events, then the silence up to the end."""
    engine = Interpreter(parse_pattern(pattern.text))
    states: dict[str, InterpreterState] = {}
    outputs: Counter[Output] = Counter()
    for event in evidence.log.get(pattern.topic, ()):
        key = event.key or ""
        now = _us(event.appended_at)
        state = states.get(key) or engine.start(now)
        states[key], told = engine.step(state, Event(event.type, now, Sample(None, event.type, key=key)))
        outputs.update((key, one.token, EPOCH + timedelta(microseconds=one.time)) for one in told)
    if evidence.drained_at is not None:
        for key, state in states.items():
            _, told = engine.advance(state, _us(evidence.drained_at))
            outputs.update((key, one.token, EPOCH + timedelta(microseconds=one.time)) for one in told)
    return outputs


def _us(moment: datetime) -> int:
    return (moment - EPOCH) // timedelta(microseconds=1)


def outputs_arrive(evidence: Evidence) -> Verdict:
    """Every output that becomes an event is one event of its topic."""
    there = Counter(event.id for event in evidence.log.get(ALERTS, ()))
    wanted = {one.output_id: one for one in evidence.pushed if one.becomes == "event"}

    def found() -> Iterator[Violation]:
        for id_, one in wanted.items():
            if there[id_] != 1:
                yield Violation(f"an output became {there[id_]} events", (str(one),))
        for id_ in there.keys() - wanted.keys():
            yield Violation("an event of a correlator without its output", (str(id_),))

    return judge("outputs-arrive", "an output becomes one event", len(wanted), found())


def pipeline_did_it_once(evidence: Evidence) -> Verdict:
    """Where a topic's rules and correlators ran on Spark: the ledger of its batches has every firing and output, each once, and
    came to the end of the log."""
    ledger = evidence.ledger
    if ledger is None:
        return judge("pipeline-did-it-once", PIPELINE_PROMISE, 0, ())
    own = {name for name, pattern in PATTERNS.items() if pattern.topic == TRIPS}
    compared = {
        "firings": (ledger.firings, sum(one.topic == TRIPS for one in evidence.fired)),
        "outputs": (ledger.outputs, sum(one.correlator in own for one in evidence.pushed)),
        "positions": (ledger.upto, len(evidence.log.get(TRIPS, ()))),
    }

    def found() -> Iterator[Violation]:
        for what, (told, there) in compared.items():
            if told != there:
                yield Violation(
                    f"the batches of the pipeline do not add up to the {what}",
                    (f"{what}: {told} in the ledger of {ledger.batches} batches, {there} there",),
                )

    return judge("pipeline-did-it-once", PIPELINE_PROMISE, ledger.batches, found())


def _asked(evidence: Evidence) -> dict[UUID, Fired | Pushed]:
    actions: dict[UUID, Fired | Pushed] = {one.action_id: one for one in evidence.fired}
    actions |= {one.output_id: one for one in evidence.pushed if one.becomes == "action"}
    return actions


def actions_end_once(evidence: Evidence) -> Verdict:
    """Each action that was asked for is done once, or is dead with its attempts used up; no other action ended."""
    asked = _asked(evidence)
    ends: dict[UUID, list[str]] = defaultdict(list)
    for one in evidence.results:
        ends[one.action_id].append(f"{one.outcome} {one.action} after {one.attempts} attempts")

    def found() -> Iterator[Violation]:
        for id_, cause in asked.items():
            if len(ends.get(id_, ())) != 1:
                yield Violation(f"an action ended {len(ends.get(id_, ()))} times", (str(cause), *ends.get(id_, ())))
        for id_ in ends.keys() - asked.keys():
            yield Violation("an action ended that nobody asked for", (str(id_), *ends[id_]))
        for one in evidence.results:
            most = POISON_ATTEMPTS_MAX if one.action == "explode" else ATTEMPTS_MAX
            if one.attempts > most:
                yield Violation("more attempts than allowed", (str(one),))
            elif one.outcome == "dead" and one.attempts < most:
                yield Violation("dead before its attempts were used up", (str(one),))

    return judge("actions-end-once", "each action is done once, or dead after its attempts", len(asked), found())


def effects_once(evidence: Evidence) -> Verdict:
    """What handlers wrote through their transaction is there once for an action that is done, and not for a dead one."""
    times = Counter(one.action_id for one in evidence.effects)
    ended = {one.action_id: one for one in evidence.results}

    def found() -> Iterator[Violation]:
        for id_, one in ended.items():
            wanted = 1 if one.outcome == "done" else 0
            if times[id_] != wanted:
                written = tuple(str(effect) for effect in evidence.effects if effect.action_id == id_)
                yield Violation(f"the effect of an action happened {times[id_]} times, not {wanted}", (str(one), *written))
        for id_ in times.keys() - ended.keys():
            yield Violation("an effect of an action that did not end", (str(id_),))

    return judge("effects-once", "effects through the transaction happen exactly once", len(ended), found())


def ticks_once(evidence: Evidence) -> Verdict:
    """Every tick of the schedule is one event; nothing else is in its topic."""
    events = Counter(event.id for event in evidence.log.get(TICKS, ()))
    ids = Counter(one.event_id for one in evidence.ticks if one.event_id)
    over = {one.tick_at for one in evidence.ticks}

    def found() -> Iterator[Violation]:
        for id_, count in ids.items():
            if count != 1 or events[id_] != 1:
                yield Violation(
                    f"a tick became {events[id_]} events", (str(next(t for t in evidence.ticks if t.event_id == id_)),)
                )
        for id_ in events.keys() - ids.keys():
            yield Violation("an event of the schedule without its tick", (str(id_),))
        for tick in evidence.planned_ticks:
            if tick not in over:
                yield Violation("a tick never came", (tick.isoformat(),))
        for one in evidence.ticks:
            if one.outcome != "fired":
                yield Violation(f"a tick was {one.outcome}, though every missed one is to be made up for", (str(one),))
        for one, other in pairwise(sorted(evidence.ticks, key=lambda one: one.tick_at)):
            if one.tick_at == other.tick_at:
                yield Violation("a tick was fired twice", (str(one), str(other)))

    return judge("ticks-once", "exactly one event per tick", len(evidence.planned_ticks), found())
