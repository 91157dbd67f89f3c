"""Checks: each holds on good evidence, and fails on a hand-made violation with an example that shows it."""

from __future__ import annotations

import math
import time
from bisect import bisect_right
from dataclasses import replace
from datetime import timedelta
from itertools import accumulate

import msgspec
import pytest

from headrace.prove import CHECKS, Evidence
from headrace.prove.checks.result import merge_shards
from headrace.prove.checks.timing import rate_returns
from headrace.prove.evidence import (
    ActionResult,
    ConsumedEvent,
    DeadLetter,
    Effect,
    ErasedData,
    FaultRecord,
    Firing,
    HandlerEnded,
    HandlerStarted,
    Operation,
    Output,
    PipelineTotals,
    ReadEvent,
    Sample,
    Tick,
)
from headrace.prove.workload import make_transaction
from tests.prove.evidence import (
    CHARGE,
    EXPLODE,
    LATER,
    MENDED,
    NOTIFY,
    ORDERS,
    ROWS,
    SENT_AGAIN,
    SHIPPED,
    START,
    evidence_with,
    good_evidence,
    log_with_swapped,
    log_without,
    make_id,
    relayed_events,
    sent_event,
)

BY_NAME = {check(Evidence()).check: check for check in CHECKS}
LATE = START + timedelta(hours=1)


def evidence_with_log(**changes: object) -> Evidence:
    return evidence_with(log=good_evidence().log | changes)


def evidence_with_sent(**changes: object) -> Evidence:
    """The first event was sent with other values than it has in the log."""
    first, *others = good_evidence().operations
    sent = msgspec.structs.replace(first.events[0], **changes)
    return evidence_with(operations=[replace(first, events=(sent, *first.events[1:])), *others])


def started_later(at: float) -> HandlerStarted:
    """A handler of the delayed action started at this time."""
    return HandlerStarted(at=at, node="n1", action_id=LATER, attempt=1)


VIOLATIONS: list[tuple[str, str, Evidence]] = [
    ("erased-is-gone", "is left", evidence_with(erased=ErasedData({"people": [1]}, 0, ["pgmq.q_hr_default: 1 rows"]))),
    ("erased-is-gone", "have a payload", evidence_with(erased=ErasedData({"people": [1]}, 1, []))),
    ("erased-is-gone", "a gap", evidence_with(erased=ErasedData({"people": [1, 3]}, 0, []))),
    ("acknowledged-is-logged", "lost", evidence_with(log=log_without("orders", 2))),
    (
        "acknowledged-is-logged",
        "changed",
        evidence_with(operations=[Operation(producer="p", op=1, events=(sent_event(1, amount=5),), outcomes=("ok",))]),
    ),
    ("events-as-sent", "other headers", evidence_with_sent(headers={"a": "b"})),
    ("events-as-sent", "another time", evidence_with_sent(emitted_at=LATE)),
    (
        "events-as-sent",
        "time of the sequencer",
        evidence_with(operations=[replace(operation, started_at=1.0, ended_at=2.0) for operation in good_evidence().operations]),
    ),
    (
        "rolled-back-is-invisible",
        "in the log",
        evidence_with(operations=[Operation(producer="p", op=1, events=(ORDERS[0],), commits=False)]),
    ),
    (
        "rolled-back-is-invisible",
        "read for a moment",
        evidence_with(reads=[*good_evidence().reads, ReadEvent(at=1.0, topic="orders", position=4, id=make_id(9), digest=0)]),
    ),
    ("known-events-only", "nobody sent it", evidence_with(operations=good_evidence().operations[1:])),
    ("positions-without-gaps", "gap", evidence_with(log=log_without("orders", 2))),
    ("positions-without-gaps", "begins late", evidence_with(log=log_without("orders", 1))),
    ("one-event-per-id", "twice", evidence_with_log(orders=[*good_evidence().log["orders"], good_evidence().log["orders"][0]])),
    ("producer-order-per-key", "inverted", evidence_with(log=log_with_swapped("orders", 1, 3))),
    (
        "live-reads-are-final",
        "skipped",
        evidence_with(reads=[read for read in good_evidence().reads if (read.topic, read.position) != ("orders", 2)]),
    ),
    ("live-reads-are-final", "other event", evidence_with(log=log_with_swapped("orders", 1, 3))),
    ("live-reads-are-final", "other content", evidence_with(digests={})),
    (
        "live-reads-are-final",
        "a topic not read",
        evidence_with(reads=[read for read in good_evidence().reads if read.topic != "trips"]),
    ),
    ("live-reads-are-final", "twice", evidence_with(reads=[*good_evidence().reads, good_evidence().reads[0]])),
    ("sink-writes-once", "twice", evidence_with_log(sink=[*good_evidence().log["sink"], *good_evidence().log["sink"]])),
    ("sink-writes-once", "half", evidence_with(log=log_without("sink", 1), batches=[Operation(producer="s", op=1, events=ROWS)])),
    ("consumed-once", "twice", evidence_with(consumed=[*good_evidence().consumed, ConsumedEvent(9, "ledger", 0, 3, make_id(3))])),
    ("consumed-once", "not at all", evidence_with(consumed=good_evidence().consumed[1:])),
    (
        "consumed-once",
        "handled and a dead letter",
        evidence_with(dead_letters=[*good_evidence().dead_letters, DeadLetter("ledger", 1, make_id(1), "x", None, "dead", 1)]),
    ),
    (
        "consumed-in-order",
        "later first",
        evidence_with(consumed=[ConsumedEvent(n, "ledger", 0, 4 - n, make_id(4 - n)) for n in (1, 2, 3)]),
    ),
    ("consumed-matches-log", "other event", evidence_with(consumed=[ConsumedEvent(1, "ledger", 0, 1, make_id(3))])),
    ("relayed-once", "not at all", evidence_with(relayed={"nats": relayed_events(2, 3)})),
    ("relayed-once", "twice", evidence_with(relayed={"nats": relayed_events(1, 2, 3, 3)})),
    ("relayed-once", "later first", evidence_with(relayed={"nats": relayed_events(3, 2, 1)})),
    ("relayed-once", "other event", evidence_with(relayed={"nats": relayed_events(1, 2, 3, 4)})),
    ("relayed-at-least-once", "not at all", evidence_with(relayed={"hook": relayed_events(1, 3, delivery="at least once")})),
    (
        "relayed-at-least-once",
        "twice without a fault",
        evidence_with(relayed={"hook": relayed_events(1, 2, 2, 3, delivery="at least once")}, faults=()),
    ),
    (
        "relayed-at-least-once",
        "twice before the fault",
        evidence_with(
            relayed={"hook": relayed_events(1, 2, 2, 3, delivery="at least once", at=10.0)},
            faults=[FaultRecord("kill-target", 11.0, 12.0)],
        ),
    ),
    ("relayed-at-least-once", "later first", evidence_with(relayed={"hook": relayed_events(1, 3, 2, delivery="at least once")})),
    (
        "relayed-at-least-once",
        "other event",
        evidence_with(relayed={"hook": relayed_events(1, 2, 3, 4, delivery="at least once")}),
    ),
    ("poison-becomes-dead-letter", "overtaken", evidence_with(dead_letters=good_evidence().dead_letters[:3])),
    ("poison-becomes-dead-letter", "handled", evidence_with(dead_letters=good_evidence().dead_letters[2:])),
    (
        "poison-becomes-dead-letter",
        "tried too often",
        evidence_with(
            dead_letters=[DeadLetter("careful", 1, make_id(21), "poison", "t", "dead", 3), *good_evidence().dead_letters[1:]]
        ),
    ),
    ("firings-match-rules", "missing", evidence_with(firings=good_evidence().firings[1:])),
    ("firings-match-rules", "twice", evidence_with(firings=[*good_evidence().firings, good_evidence().firings[0]])),
    (
        "firings-match-rules",
        "where it is not true",
        evidence_with(firings=[*good_evidence().firings, Firing("big", "orders", 1, make_id(1), make_id(2))]),
    ),
    ("outputs-match-replay", "missing", evidence_with(outputs=good_evidence().outputs[1:])),
    (
        "outputs-match-replay",
        "missing timer",
        evidence_with(outputs=[*good_evidence().outputs[:2], *good_evidence().outputs[3:]]),
    ),
    ("outputs-match-replay", "twice", evidence_with(outputs=[*good_evidence().outputs, good_evidence().outputs[0]])),
    (
        "outputs-match-replay",
        "at another time",
        evidence_with(
            outputs=[
                *good_evidence().outputs[:2],
                Output("timed", "p-0", "late", LATE, None, None, make_id(1)),
                *good_evidence().outputs[3:],
            ]
        ),
    ),
    ("outputs-arrive", "no event", evidence_with(log=log_without("alerts", 1))),
    (
        "outputs-arrive",
        "event without output",
        evidence_with(outputs=[*good_evidence().outputs[:1], *good_evidence().outputs[2:]]),
    ),
    ("pipeline-writes-once", "fired twice", evidence_with(pipeline=PipelineTotals(3, 2, 2, 2))),
    ("pipeline-writes-once", "an output outside the batches", evidence_with(pipeline=PipelineTotals(2, 2, 1, 1))),
    ("pipeline-writes-once", "not to the end", evidence_with(pipeline=PipelineTotals(1, 1, 1, 2))),
    ("actions-end-once", "never", evidence_with(action_results=good_evidence().action_results[1:])),
    (
        "actions-end-once",
        "twice",
        evidence_with(action_results=[*good_evidence().action_results, ActionResult(CHARGE, "charge", "done", 2)]),
    ),
    ("actions-end-once", "without a cause", evidence_with(firings=good_evidence().firings[1:])),
    (
        "actions-end-once",
        "buried early",
        evidence_with(
            action_results=[
                *good_evidence().action_results[:2],
                ActionResult(EXPLODE, "explode", "dead", 1),
                *good_evidence().action_results[3:],
            ]
        ),
    ),
    (
        "actions-end-once",
        "tried too often",
        evidence_with(action_results=[*good_evidence().action_results[1:], ActionResult(CHARGE, "charge", "done", 6)]),
    ),
    ("effects-once", "twice", evidence_with(effects=[*good_evidence().effects, Effect(3, NOTIFY, "notify", 2)])),
    ("effects-once", "never", evidence_with(effects=good_evidence().effects[1:])),
    ("effects-once", "of a dead one", evidence_with(effects=[*good_evidence().effects, Effect(3, EXPLODE, "explode", 1)])),
    (
        "ordered-by-key",
        "reversed",
        evidence_with(
            effects=[*good_evidence().effects[:4], *(Effect(n, SHIPPED[6 - n], "ship", 1) for n in (5, 6))],
        ),
    ),
    ("ticks-once", "twice", evidence_with(ticks=[*good_evidence().ticks, good_evidence().ticks[0]])),
    ("ticks-once", "without event", evidence_with(log=log_without("ticks", 1))),
    ("ticks-once", "event without tick", evidence_with(ticks=good_evidence().ticks[1:], expected_ticks=())),
    ("ticks-once", "never", evidence_with(expected_ticks=[*good_evidence().expected_ticks, LATE])),
    ("ticks-once", "none at all", evidence_with(ticks=[], log=good_evidence().log | {"ticks": []})),
    ("ticks-once", "skipped", evidence_with(ticks=[*good_evidence().ticks, Tick(LATE, "skipped", None)])),
    (
        "one-holder",
        "two at once",
        evidence_with(
            handler_records=[
                *good_evidence().handler_records[:2],
                HandlerStarted(at=1.5, node="n2", action_id=CHARGE, attempt=2),
                HandlerEnded(at=3.0, node="n2", action_id=CHARGE, attempt=2),
            ]
        ),
    ),
    ("unique-once", "sent twice", evidence_with(effects=[*good_evidence().effects, Effect(9, SENT_AGAIN, "later", 1)])),
    ("unique-once", "never sent", evidence_with(effects=[])),
    ("not-before-its-time", "early", evidence_with(handler_records=[started_later(9.0)])),
    ("nothing-starts-paused", "started", evidence_with(handler_records=[started_later(10.5)])),
    ("redriven-once", "twice", evidence_with(effects=[*good_evidence().effects, Effect(9, MENDED, "mend", 1)])),
    ("redriven-once", "lost", evidence_with(action_results=good_evidence().action_results[:-1])),
    ("redriven-once", "never dead", evidence_with(action_results=[ActionResult(MENDED, "mend", "done", 1)])),
    ("all-work-finished", "unfinished", evidence_with(unfinished={"events in the outbox": 1})),
    (
        "other-shards-continue",
        "the first shard stopped",
        evidence_with(
            samples=[Sample(float(at), 0, 100 * (at if at <= 40 else 40 + (at - 40) // 5), 0, 0, 0) for at in range(60)]
        ),
    ),
    ("processes-survive", "a node ended", evidence_with(unexpected_exits=["node n1 ended with exit code 1"])),
]


@pytest.mark.parametrize("name", BY_NAME)
def test_check_holds_on_good_evidence(name: str) -> None:
    result = BY_NAME[name](good_evidence())
    assert result.holds, result.smallest
    assert result.examined > 0


@pytest.mark.parametrize(
    ("name", "evidence"), [(name, evidence) for name, _, evidence in VIOLATIONS], ids=[f"{n}: {w}" for n, w, _ in VIOLATIONS]
)
def test_check_fails_on_a_violation_with_an_example(name: str, evidence: Evidence) -> None:
    result = BY_NAME[name](evidence)
    assert not result.holds
    assert result.smallest is not None and result.smallest.what and result.smallest.example


def test_run_without_a_pipeline_checks_no_ledger() -> None:
    result = BY_NAME["pipeline-writes-once"](evidence_with(pipeline=None))
    assert (result.holds, result.examined) == (True, 0)


def test_other_shard_is_not_judged_right_after_another_fault() -> None:
    faults = [FaultRecord("kill-node", 35.0, 39.0), FaultRecord("shard-down", 40.0, 45.0)]
    result = BY_NAME["other-shards-continue"](evidence_with(samples=samples(0, until=60), faults=faults))
    assert (result.holds, result.examined) == (True, 0)


def test_violation_on_another_shard_breaks_the_promise_and_names_the_shard() -> None:
    check = BY_NAME["acknowledged-is-logged"]
    result = merge_shards({"main": check(good_evidence()), "shard2": check(evidence_with(log=log_without("orders", 2)))})
    assert (result.holds, result.violations, result.examined) == (False, 1, 2 * check(good_evidence()).examined)
    assert result.smallest is not None and result.smallest.what.startswith("on shard2: ")


def test_every_check_has_a_violation() -> None:
    assert {name for name, _, _ in VIOLATIONS} == set(BY_NAME)


def test_checks_of_an_hour_end_also_where_everything_is_broken() -> None:
    """As many records as an hour leaves, each of them wrong: a check that compares them in pairs would take hours."""
    began_s, count = time.process_time(), 15_000
    good = good_evidence()
    [event, *_] = good.log["orders"]
    ids = [make_id(10_000 + n) for n in range(count)]
    twice = [msgspec.structs.replace(event, id=ids[n // 2], position=n + 1) for n in range(count)]
    evidence = evidence_with(
        log=good.log | {"orders": twice, "ticks": twice},
        consumed=[ConsumedEvent(n, "ledger", 0, count - n, ids[n]) for n in range(count)],
        relayed={"hook": relayed_events(*range(count), *range(count), delivery="at least once", at=1.0)},
        effects=[Effect(n, ids[n // 2], "ship", 1) for n in range(count)],
        action_results=[ActionResult(id_, "ship", "done", 1) for id_ in ids],
        firings=[Firing("ship", "orders", count - n, ids[n], ids[n]) for n in range(count)],
        ticks=[Tick(START + timedelta(seconds=n), "fired", ids[n // 2]) for n in range(count)],
        handler_records=[
            kind(at=float(n), node=f"n{n % 2}", action_id=id_, attempt=1)
            for n, id_ in enumerate(ids)
            for kind in (HandlerStarted, HandlerEnded)
        ],
        faults=[FaultRecord("kill-node", 30.0 * n, 30.0 * n + 1) for n in range(120)],
    )
    broken = {result.check for check in CHECKS if not (result := check(evidence)).holds}
    assert broken >= {"one-event-per-id", "consumed-in-order", "effects-once", "ordered-by-key", "ticks-once"}
    # CPU and not the clock, which counts what else runs on the machine.
    assert time.process_time() - began_s < 30


def test_smallest_example_is_shown() -> None:
    twice = [*good_evidence().log["orders"], *good_evidence().log["orders"], good_evidence().log["orders"][0]]
    result = BY_NAME["one-event-per-id"](evidence_with_log(orders=twice))
    assert result.violations == 3
    assert result.smallest is not None and len(result.smallest.example) == 2, "one event is there three times, the others twice"


def test_other_node_may_take_over_the_actions_of_a_stopped_node() -> None:
    """Leases end for that; effects-once checks that the stopped node's ack is then rejected."""
    overlap = [
        HandlerStarted(at=1.0, node="n1", action_id=CHARGE, attempt=1), HandlerEnded(at=9.0, node="n1", action_id=CHARGE, attempt=1),
        HandlerStarted(at=6.0, node="n2", action_id=CHARGE, attempt=2), HandlerEnded(at=6.5, node="n2", action_id=CHARGE, attempt=2),
    ]  # fmt: skip
    check = BY_NAME["one-holder"]
    assert not check(evidence_with(handler_records=overlap, faults=[FaultRecord("poison", 0.5, 9.0)])).holds
    assert check(evidence_with(handler_records=overlap, faults=[FaultRecord("stop-node", 0.5, 9.0)])).holds


def samples(rate_after: float, *, until: int = 80) -> list[Sample]:
    """A hundred events per second up to 20 s, none during the fault, then another rate."""
    consumed, result = 0.0, []
    for at in range(until):
        consumed += 100 if at < 20 else 0 if at < 22 else rate_after
        result.append(Sample(float(at), 0, int(consumed), 0, 0, 0))
    return result


@pytest.mark.parametrize(
    ("rate_after", "margin", "holds"), [(100, 0.0, True), (80, 0.0, False), (80, 0.2, True), (0, 0.5, False), (95, 0.0, True)]
)
def test_rate_must_return_within_the_margin(rate_after: float, margin: float, holds: bool) -> None:
    result = rate_returns(
        evidence_with(samples=samples(rate_after), faults=[FaultRecord("kill-node", 20.0, 21.0)]), margin=margin
    )
    assert (result.holds, result.examined) == (holds, 1)
    assert f"margin {margin:.0%}" in result.note


def by_producers(seed: int, *, until_s: float, rate: float = 50.0, slower_from_s: float = math.inf) -> list[Sample]:
    """Samples of three producers of a run and a consumer that keeps up, twice a second."""
    committed: list[tuple[float, int]] = []
    for name in ("p", "q", "r"):
        at, op = 0.0, 1
        while at < until_s:
            transaction = make_transaction(seed, name, op)
            committed += [(at, sum(sent.topic == "orders" for sent in transaction.events))] if transaction.commits else []
            at, op = at + len(transaction.events) / (rate if at < slower_from_s else rate * 0.7), op + 1
    committed.sort()
    times, counts = [at for at, _ in committed], list(accumulate(count for _, count in committed))
    sampled_at = [half / 2 for half in range(2, int(until_s * 2))]
    return [Sample(at, 0, counts[bisect_right(times, at) - 1], 0, 0, 0) for at in sampled_at]


@pytest.mark.parametrize(("seed", "count"), [(0, 10), (1, 10), pytest.param(2, 100, marks=pytest.mark.slow)])
def test_rate_that_varies_by_chance_is_no_violation(seed: int, count: int) -> None:
    """Transactions differ in size and topic. A fault every 34 s that changes nothing."""
    faults = [FaultRecord("migrate", 34.0 * number, 34.0 * number + 4) for number in range(1, count + 1)]
    until_s = 34.0 * (count + 2)
    result = rate_returns(evidence_with(samples=by_producers(seed, until_s=until_s), faults=faults, producers_stopped_at=until_s))
    assert (result.violations, result.examined) == (0, count), result.smallest


@pytest.mark.parametrize("seed", range(3))
def test_rate_that_stays_lower_is_a_violation_whatever_chance_does(seed: int) -> None:
    lost = by_producers(seed, until_s=140, slower_from_s=100.0)
    result = rate_returns(
        evidence_with(samples=lost, faults=[FaultRecord("kill-node", 100.0, 102.0)], producers_stopped_at=140.0)
    )
    assert (result.violations, result.examined) == (1, 1)


def test_backlog_that_stays_is_a_violation_though_the_rate_is_back() -> None:
    """More events arrive than are handled."""
    growing = [replace(sample, lag=max(int(sample.at) - 20, 0) * 20) for sample in samples(100)]
    result = rate_returns(evidence_with(samples=growing, faults=[FaultRecord("kill-node", 20.0, 21.0)]))
    assert result.smallest is not None and "backlog" in result.smallest.what


def test_working_off_a_backlog_is_not_the_usual_rate() -> None:
    """No consumer for ten seconds, then half as many events for good: at first it still handles a hundred per second."""
    arrived = [100 * min(at, 20) + 100 * max(min(at, 30) - 20, 0) + 50 * max(at - 30, 0) for at in range(80)]
    handled = [at * 100 if at <= 20 else 2000 if at <= 30 else min(2000 + 100 * (at - 30), arrived[at]) for at in range(80)]
    worked_off = [Sample(float(at), 0, handled[at], 0, arrived[at] - handled[at], 0) for at in range(80)]
    result = rate_returns(evidence_with(samples=worked_off, faults=[FaultRecord("stop-node", 20.0, 30.0)]))
    assert (result.violations, result.examined) == (1, 1)


def test_lease_is_judged_only_without_a_fault_that_excuses_it() -> None:
    check = BY_NAME["one-holder"]
    assert check(evidence_with(faults=[])).examined == 3
    assert check(evidence_with(faults=[FaultRecord("cut", 2.5, 4.0)])).examined == 1
    assert check(evidence_with(faults=[FaultRecord("cut", 0.0, 4.0)])).label == "not checked"


def test_rate_is_not_judged_if_the_next_fault_comes_first() -> None:
    faults = [FaultRecord("kill-node", 20.0, 21.0), FaultRecord("cut", 24.0, 25.0)]
    result = rate_returns(evidence_with(samples=samples(0, until=40), faults=faults))
    assert "0 of 2" in result.note or "1 of 2" in result.note


def test_tick_that_fired_twice_is_shown() -> None:
    twice = [*good_evidence().ticks, Tick(good_evidence().ticks[0].tick_at, "fired", make_id(900))]
    smallest = BY_NAME["ticks-once"](evidence_with(ticks=twice)).smallest
    assert smallest is not None and smallest.example
