"""Keys that had no event for a while are forgotten: those and no others, in bounded pieces, and nobody waits for it."""

from __future__ import annotations

import pytest

from headrace.correlators import CorrelatorEngine
from headrace.db import Connection
from tests.builders import rows_read, topic
from tests.correlators.steps import happen, pushed, settle_correlators

PAIR = "repeat {push(x) {sequential {a, b}}}"
# These are stepped by a node.
KEPT = "capture n = (object -> 'n')::int; repeat {push(x) {sequential {a as p, b and <n + p.n > 0>}}}"
LONG = "repeat {push(x) {sequential {a, b, loop(100) {c}}}}"


@pytest.fixture
def cars(conn: Connection) -> Connection:
    topic(conn, "cars")
    return conn


async def keys(cars: Connection, correlators: CorrelatorEngine, *names: str, pattern: str = PAIR) -> None:
    """A correlator that forgets after an hour, with these keys."""
    cars.execute(
        """insert into headrace.correlator (correlator, topic, key, pattern, forget_after)
           values ('pair', 'cars', 'key', %s, '1 hour')""",
        (pattern,),
    )
    happen(cars, " ".join(f"a:{name}" for name in names))
    await settle_correlators(correlators, cars)


def age(cars: Connection, *, before: str = "~") -> None:
    """The keys up to there had no event for two hours."""
    cars.execute(
        "update headrace_internal.correlator_instance set seen_at = seen_at - interval '2 hours' where key < %s", (before,)
    )


@pytest.mark.parametrize("pattern", [PAIR, KEPT])
async def test_keys_are_forgotten_after_a_time_without_events(
    cars: Connection, correlators: CorrelatorEngine, pattern: str
) -> None:
    await keys(cars, correlators, "k", "j", pattern=pattern)
    age(cars)
    # An event that moves nothing counts all the same.
    happen(cars, "z:j")
    await settle_correlators(correlators, cars)
    assert cars.execute("select headrace_internal.forget_instances()").fetchone() == (1,)
    happen(cars, "b:k b:j")
    await settle_correlators(correlators, cars)
    assert [row[2] for row in pushed(cars)] == ["j"]


@pytest.mark.parametrize("pattern", [KEPT, LONG])
async def test_node_reads_events_of_other_types_only_to_know_that_a_key_lives(
    cars: Connection, correlators: CorrelatorEngine, pattern: str
) -> None:
    await keys(cars, correlators, "k", pattern=pattern)
    create = "insert into headrace.correlator (correlator, topic, key, pattern) values ('lasting', 'cars', 'key', %s)"
    cars.execute(create, (pattern,))
    await settle_correlators(correlators, cars)
    happen(cars, "z:k a:k y:k b:k c:k")
    counts = {}
    for watched in await correlators.watched():
        read = "select count(*) from headrace_internal.read_symbols(%s, 1, 6) s"
        (counts[watched.correlator],) = cars.execute(read, (watched.correlator_id,)).fetchone()  # type: ignore[misc]
    assert counts == {"pair": 5, "lasting": 3 if pattern == LONG else 2}


async def test_looking_for_keys_to_forget_goes_round_in_bounded_pieces(cars: Connection, correlators: CorrelatorEngine) -> None:
    await keys(cars, correlators, *(f"k{n:02}" for n in range(50)))
    age(cars, before="k10")
    looks = []
    for _ in range(12):
        with cars.transaction():
            before = rows_read(cars, "correlator_instance")
            (forgotten,) = cars.execute("select headrace_internal.forget_instances(10)").fetchone()  # type: ignore[misc]
            # Eleven to look at; those that are old once more, to delete them.
            assert rows_read(cars, "correlator_instance") - before <= 11 + forgotten
            looks.append(forgotten)
    assert sum(looks[:6]) == 10 and sum(looks[6:]) == 0
    age(cars)
    assert sum(cars.execute("select headrace_internal.forget_instances(10)").fetchone()[0] for _ in range(6)) == 40  # type: ignore[index]


async def test_correlator_without_a_key_to_forget_is_not_held_up(
    cars: Connection, second: Connection, correlators: CorrelatorEngine
) -> None:
    await keys(cars, correlators, *"abcde")
    free = "select count(*) from (select from headrace.cursor where partition = -1 for no key update skip locked) c"
    with cars.transaction():
        cars.execute("select headrace_internal.forget_instances()")
        assert second.execute(free).fetchone() == (1,)
    age(cars)
    with second.transaction():
        second.execute(free)
        assert cars.execute("select headrace_internal.forget_instances()").fetchone() == (0,), "it is at work"
    with cars.transaction():
        assert cars.execute("select headrace_internal.forget_instances()").fetchone() == (5,)
        assert second.execute(free).fetchone() == (0,)
