"""Checks: each holds on a whole run, and is seen to fail on a hand-made violation, with an example that shows it."""

from __future__ import annotations

import math
from bisect import bisect_right
from dataclasses import replace
from datetime import timedelta
from itertools import accumulate

import pytest

from headrace.prove import CHECKS, Evidence
from headrace.prove.check_time import rate_returns
from headrace.prove.evidence import Consumed, Effect, Fallen, Fired, Ledger, Letter, Operation, Pushed, Result, Sample, Ticked
from headrace.prove.history import Began, Left, Seen
from headrace.prove.verdict import join
from headrace.prove.workload import transaction
from tests.prove.evidence import CHARGE, EXPLODE, NOTIFY, ORDERS, ROWS, START, TROUBLE, but, sent, swapped, uid, whole, without

BY_NAME = {check(Evidence()).check: check for check in CHECKS}
LATE = START + timedelta(hours=1)


def logs(**changed: object) -> Evidence:
    return but(log=whole().log | changed)


VIOLATIONS: list[tuple[str, str, Evidence]] = [
    ("acknowledged-is-logged", "lost", but(log=without("orders", 2))),
    (
        "acknowledged-is-logged",
        "changed",
        but(operations=[Operation(producer="p", op=1, events=(sent(1, amount=5),), outcomes=("ok",))]),
    ),
    ("rolled-back-is-unseen", "in the log", but(operations=[Operation(producer="p", op=1, events=(ORDERS[0],), commits=False)])),
    (
        "rolled-back-is-unseen",
        "seen for a moment",
        but(seen=[*whole().seen, Seen(at=1.0, topic="orders", position=4, id=uid(9), digest=0)]),
    ),
    ("known-events-only", "nobody sent it", but(operations=whole().operations[1:])),
    ("positions-without-gaps", "gap", but(log=without("orders", 2))),
    ("positions-without-gaps", "begins late", but(log=without("orders", 1))),
    ("one-event-per-id", "twice", logs(orders=[*whole().log["orders"], whole().log["orders"][0]])),
    ("producer-order-per-key", "inverted", but(log=swapped("orders", 1, 3))),
    ("live-reads-are-final", "skipped", but(seen=[one for one in whole().seen if (one.topic, one.position) != ("orders", 2)])),
    ("live-reads-are-final", "other event", but(log=swapped("orders", 1, 3))),
    ("live-reads-are-final", "other content", but(digests={})),
    ("live-reads-are-final", "a topic unseen", but(seen=[one for one in whole().seen if one.topic != "trips"])),
    ("live-reads-are-final", "twice", but(seen=[*whole().seen, whole().seen[0]])),
    ("sink-wrote-once", "twice", logs(sunk=[*whole().log["sunk"], *whole().log["sunk"]])),
    ("sink-wrote-once", "half", but(log=without("sunk", 1), batches=[Operation(producer="s", op=1, events=ROWS)])),
    ("consumed-once", "twice", but(consumed=[*whole().consumed, Consumed(9, "ledger", 0, 3, uid(3))])),
    ("consumed-once", "not at all", but(consumed=whole().consumed[1:])),
    ("consumed-once", "handled and buried", but(letters=[*whole().letters, Letter("ledger", 1, uid(1), "x", None, "dead", 1)])),
    ("consumed-in-order", "later first", but(consumed=[Consumed(n, "ledger", 0, 4 - n, uid(4 - n)) for n in (1, 2, 3)])),
    ("consumed-what-is-there", "other event", but(consumed=[Consumed(1, "ledger", 0, 1, uid(3))])),
    ("poison-is-put-aside", "overtaken", but(letters=whole().letters[:3])),
    ("poison-is-put-aside", "handled", but(letters=whole().letters[2:])),
    (
        "poison-is-put-aside",
        "tried too often",
        but(letters=[Letter("careful", 1, uid(21), "poison", "t", "dead", 3), *whole().letters[1:]]),
    ),
    ("firings-are-the-rules", "missing", but(fired=whole().fired[1:])),
    ("firings-are-the-rules", "twice", but(fired=[*whole().fired, whole().fired[0]])),
    ("firings-are-the-rules", "where it is not true", but(fired=[*whole().fired, Fired("big", "orders", 1, uid(1), uid(2))])),
    ("outputs-are-the-replay", "missing", but(pushed=whole().pushed[1:])),
    ("outputs-are-the-replay", "missing timer", but(pushed=[*whole().pushed[:2], *whole().pushed[3:]])),
    ("outputs-are-the-replay", "twice", but(pushed=[*whole().pushed, whole().pushed[0]])),
    (
        "outputs-are-the-replay",
        "at another time",
        but(pushed=[*whole().pushed[:2], Pushed("timed", "p-0", "late", LATE, None, None, uid(1)), *whole().pushed[3:]]),
    ),
    ("outputs-arrive", "no event", but(log=without("alerts", 1))),
    ("outputs-arrive", "event without output", but(pushed=[*whole().pushed[:1], *whole().pushed[2:]])),
    ("pipeline-did-it-once", "fired twice", but(ledger=Ledger(3, 2, 2, 2))),
    ("pipeline-did-it-once", "an output beside the batches", but(ledger=Ledger(2, 2, 1, 1))),
    ("pipeline-did-it-once", "not to the end", but(ledger=Ledger(1, 1, 1, 2))),
    ("actions-end-once", "never", but(results=whole().results[1:])),
    ("actions-end-once", "twice", but(results=[*whole().results, Result(CHARGE, "charge", "done", 2)])),
    ("actions-end-once", "not asked for", but(fired=whole().fired[1:])),
    (
        "actions-end-once",
        "buried early",
        but(results=[*whole().results[:2], Result(EXPLODE, "explode", "dead", 1), *whole().results[3:]]),
    ),
    ("actions-end-once", "tried too often", but(results=[*whole().results[1:], Result(CHARGE, "charge", "done", 6)])),
    ("effects-once", "twice", but(effects=[*whole().effects, Effect(3, NOTIFY, "notify", 2)])),
    ("effects-once", "never", but(effects=whole().effects[1:])),
    ("effects-once", "of a dead one", but(effects=[*whole().effects, Effect(3, EXPLODE, "explode", 1)])),
    ("ticks-once", "twice", but(ticks=[*whole().ticks, whole().ticks[0]])),
    ("ticks-once", "without event", but(log=without("ticks", 1))),
    ("ticks-once", "event without tick", but(ticks=whole().ticks[1:], planned_ticks=())),
    ("ticks-once", "never", but(planned_ticks=[*whole().planned_ticks, LATE])),
    ("ticks-once", "none at all", but(ticks=[], log=whole().log | {"ticks": []})),
    ("ticks-once", "passed over", but(ticks=[*whole().ticks, Ticked(LATE, "skipped", None)])),
    (
        "one-holder",
        "two at once",
        but(
            handlings=[
                *whole().handlings[:2],
                Began(at=1.5, node="n2", action_id=CHARGE, attempt=2),
                Left(at=3.0, node="n2", action_id=CHARGE, attempt=2),
            ]
        ),
    ),
    ("worked-off", "left over", but(left_over={"events in the outbox": 1})),
    (
        "other-shards-go-on",
        "the first stood still",
        but(samples=[Sample(float(at), 0, 100 * (at if at <= 40 else 40 + (at - 40) // 5), 0, 0, 0) for at in range(60)]),
    ),
    ("processes-live", "a node ended", but(unexpected=["node n1 ended with exit code 1"])),
]


@pytest.mark.parametrize("name", BY_NAME)
def test_check_holds_where_every_promise_held(name: str) -> None:
    verdict = BY_NAME[name](whole())
    assert verdict.holds, verdict.smallest
    assert verdict.examined > 0


@pytest.mark.parametrize(
    ("name", "evidence"), [(name, one) for name, _, one in VIOLATIONS], ids=[f"{n}: {w}" for n, w, _ in VIOLATIONS]
)
def test_check_fails_on_a_violation_and_shows_it(name: str, evidence: Evidence) -> None:
    verdict = BY_NAME[name](evidence)
    assert not verdict.holds
    assert verdict.smallest is not None and verdict.smallest.what and verdict.smallest.example


def test_run_without_a_pipeline_has_no_ledger_to_judge() -> None:
    verdict = BY_NAME["pipeline-did-it-once"](but(ledger=None))
    assert (verdict.holds, verdict.examined) == (True, 0)


def test_shard_beside_a_dead_one_is_not_judged_by_the_rate_after_another_fault() -> None:
    faults = [Fallen("kill-node", 35.0, 39.0), Fallen("shard-down", 40.0, 45.0)]
    verdict = BY_NAME["other-shards-go-on"](but(samples=samples(0, until=60), fallen=faults))
    assert (verdict.holds, verdict.examined) == (True, 0)


def test_violation_on_another_shard_breaks_the_promise_and_tells_where() -> None:
    check = BY_NAME["acknowledged-is-logged"]
    verdict = join({"main": check(whole()), "shard2": check(but(log=without("orders", 2)))})
    assert (verdict.holds, verdict.broken, verdict.examined) == (False, 1, 2 * check(whole()).examined)
    assert verdict.smallest is not None and verdict.smallest.what.startswith("on shard2: ")


def test_every_check_is_seen_to_fail() -> None:
    assert {name for name, _, _ in VIOLATIONS} == set(BY_NAME)


def test_smallest_example_is_shown() -> None:
    twice = [*whole().log["orders"], *whole().log["orders"], whole().log["orders"][0]]
    verdict = BY_NAME["one-event-per-id"](logs(orders=twice))
    assert verdict.broken == 3
    assert verdict.smallest is not None and len(verdict.smallest.example) == 2, "one is there three times, the others twice"


def test_stopped_node_may_be_overtaken() -> None:
    """A lease that ends because its node is stopped is what leases are for; the fence is checked by effects-once."""
    overlap = [
        Began(at=1.0, node="n1", action_id=CHARGE, attempt=1), Left(at=9.0, node="n1", action_id=CHARGE, attempt=1),
        Began(at=6.0, node="n2", action_id=CHARGE, attempt=2), Left(at=6.5, node="n2", action_id=CHARGE, attempt=2),
    ]  # fmt: skip
    check = BY_NAME["one-holder"]
    assert not check(but(handlings=overlap, fallen=[Fallen("poison", 0.5, 9.0)])).holds
    assert check(but(handlings=overlap, fallen=[Fallen("stop-node", 0.5, 9.0)])).holds


def samples(rate_after: float, *, until: int = 80) -> list[Sample]:
    """A hundred a second up to 20, none while the fault lasts, then another rate."""
    consumed, found = 0.0, []
    for at in range(until):
        consumed += 100 if at < 20 else 0 if at < 22 else rate_after
        found.append(Sample(float(at), 0, int(consumed), 0, 0, 0))
    return found


@pytest.mark.parametrize(
    ("rate_after", "margin", "holds"), [(100, 0.0, True), (80, 0.0, False), (80, 0.2, True), (0, 0.5, False), (95, 0.0, True)]
)
def test_rate_has_to_return_within_the_margin_told(rate_after: float, margin: float, holds: bool) -> None:
    verdict = rate_returns(but(samples=samples(rate_after), fallen=[Fallen("kill-node", 20.0, 21.0)]), margin=margin)
    assert (verdict.holds, verdict.examined) == (holds, 1)
    assert f"margin {margin:.0%}" in verdict.note


def by_producers(seed: int, *, until_s: float, rate: float = 50.0, slower_from_s: float = math.inf) -> list[Sample]:
    """Three producers as a run has them, and a consumer that keeps up; looked at twice a second."""
    committed: list[tuple[float, int]] = []
    for name in ("p", "q", "r"):
        at, op = 0.0, 1
        while at < until_s:
            made = transaction(seed, name, op)
            committed += [(at, sum(one.topic == "orders" for one in made.events))] if made.commits else []
            at, op = at + len(made.events) / (rate if at < slower_from_s else rate * 0.7), op + 1
    committed.sort()
    times, counts = [at for at, _ in committed], list(accumulate(count for _, count in committed))
    looks = [look / 2 for look in range(2, int(until_s * 2))]
    return [Sample(at, 0, counts[bisect_right(times, at) - 1], 0, 0, 0) for at in looks]


@pytest.mark.parametrize("seed", range(3))
def test_rate_that_varies_by_chance_alone_is_not_called_lost(seed: int) -> None:
    """Transactions differ in size and topic. Twenty minutes with a fault every 34 s, none of which does anything."""
    faults = [Fallen("migrate", 34.0 * number, 34.0 * number + 4) for number in range(1, 35)]
    verdict = rate_returns(but(samples=by_producers(seed, until_s=1224), fallen=faults, flows_until=1224.0))
    assert (verdict.broken, verdict.examined) == (0, 34), verdict.smallest


@pytest.mark.parametrize("seed", range(3))
def test_rate_that_is_lost_for_good_is_noticed_whatever_chance_does(seed: int) -> None:
    lost = by_producers(seed, until_s=140, slower_from_s=100.0)
    verdict = rate_returns(but(samples=lost, fallen=[Fallen("kill-node", 100.0, 102.0)], flows_until=140.0))
    assert (verdict.broken, verdict.examined) == (1, 1)


def test_backlog_that_stays_is_noticed_though_the_rate_is_back() -> None:
    """More comes than is handled."""
    growing = [replace(one, lag=max(int(one.at) - 20, 0) * 20) for one in samples(100)]
    verdict = rate_returns(but(samples=growing, fallen=[Fallen("kill-node", 20.0, 21.0)]))
    assert verdict.smallest is not None and "backlog" in verdict.smallest.what


def test_backlog_being_worked_off_is_not_the_rate() -> None:
    """Ten seconds without a consumer, then half as many come for good: at first it handles a hundred a second all the same."""
    came = [100 * min(at, 20) + 100 * max(min(at, 30) - 20, 0) + 50 * max(at - 30, 0) for at in range(80)]
    done = [at * 100 if at <= 20 else 2000 if at <= 30 else min(2000 + 100 * (at - 30), came[at]) for at in range(80)]
    worked_off = [Sample(float(at), 0, done[at], 0, came[at] - done[at], 0) for at in range(80)]
    verdict = rate_returns(but(samples=worked_off, fallen=[Fallen("stop-node", 20.0, 30.0)]))
    assert (verdict.broken, verdict.examined) == (1, 1)


def test_lease_is_judged_only_where_no_fault_excuses_it() -> None:
    check = BY_NAME["one-holder"]
    assert check(but(fallen=[])).examined == 2
    assert check(but(fallen=[Fallen("cut", 2.5, 4.0)])).examined == 1
    assert check(but(fallen=[Fallen("cut", 0.0, 4.0)])).word == "not judged"


def test_rate_is_not_judged_where_the_next_fault_came_first() -> None:
    faults = [Fallen("kill-node", 20.0, 21.0), Fallen("cut", 24.0, 25.0)]
    verdict = rate_returns(but(samples=samples(0, until=40), fallen=faults))
    assert "0 of 2" in verdict.note or "1 of 2" in verdict.note


def test_ticked_twice_is_told_with_both() -> None:
    twice = [*whole().ticks, Ticked(whole().ticks[0].tick_at, "fired", uid(900))]
    smallest = BY_NAME["ticks-once"](but(ticks=twice)).smallest
    assert smallest is not None
    assert TROUBLE and smallest.example
