"""A pattern that is hard to analyse stops nobody: the event loop goes on, and the answer is clear and always the same."""

from __future__ import annotations

import asyncio
import time
from dataclasses import replace

import pytest

from headrace.core import FeedbackLoop
from headrace.correlators import ActionOutput, Correlator, CorrelatorEngine, EventOutput, create_correlator, list_correlators
from headrace.db import Connection, StopSignal
from tests.builders import topic
from tests.correlators.steps import settle_correlators

# Python compiles the patterns; PostgreSQL only stores them.
pytestmark = pytest.mark.lane("pg18")

TIMERS = ", ".join(f"sequential {{e{number}, after {number + 1} s, f{number}}}" for number in range(8))
MANY_TIMERS = f"repeat {{push(x) {{accumulate {{{TIMERS}}}}}}}"
"""Eight timers side by side: the exact analysis has more than 20 000 configurations, and used to stop the event loop meanwhile."""
FEEDING = Correlator(name="timers", topic="cars", pattern=MANY_TIMERS, outputs={"x": EventOutput(event="done", topic="cars")})
_BRANCH = "push(x) {" + "fail {" * 56 + "accumulate {a, b, c, d, e, f, g}" + "}" * 57
TOO_LARGE = "parallel {" + ", ".join([_BRANCH] * 27) + "}"
"""Within every limit of the text; compiling it takes 9 000 000 steps."""


async def longest_pause_s(stop: asyncio.Event) -> float:
    """The most CPU that the loop's own thread spent on anything before it came to the next task. Other processes do not count."""
    longest, before = 0.0, time.thread_time()
    while not stop.is_set():
        await asyncio.sleep(0.01)
        now = time.thread_time()
        longest, before = max(longest, now - before), now
    return longest


async def settle_and_measure(correlators: CorrelatorEngine, conn: Connection) -> float:
    """Compiles everything; returns the longest time for which one task kept the event loop busy."""
    stop = StopSignal()
    pause = asyncio.create_task(longest_pause_s(stop))
    await settle_correlators(correlators, conn)
    stop.set()
    return await pause


def write(conn: Connection, pattern: str, output: str) -> None:
    """As an admin writes it who does not use the library."""
    statement = "insert into headrace.correlator (correlator, topic, pattern, outputs) values ('timers', 'cars', %s, %s::jsonb)"
    conn.execute(statement, (pattern, output))


@pytest.fixture
def cars(conn: Connection) -> Connection:
    topic(conn, "cars")
    return conn


async def test_event_loop_goes_on_while_feedback_of_many_timers_is_analysed(
    cars: Connection, correlators: CorrelatorEngine
) -> None:
    write(cars, MANY_TIMERS, '{"x": {"event": "done", "topic": "cars"}}')
    assert await settle_and_measure(correlators, cars) < 2
    (state,) = list_correlators(cars)
    assert (state.status, state.error) == ("valid", None)


async def test_event_loop_goes_on_while_too_large_a_pattern_is_compiled(cars: Connection, correlators: CorrelatorEngine) -> None:
    write(cars, TOO_LARGE, '{"x": {"action": "ALARM"}}')
    assert await settle_and_measure(correlators, cars) < 2
    (state,) = list_correlators(cars)
    assert state.status == "invalid"
    assert "compiling the pattern needs at least 15" in str(state.error)
    assert "steps, allowed are 1500000; split the pattern" in str(state.error)


def test_many_timers_are_analysed_by_the_types_they_read(cars: Connection) -> None:
    create_correlator(cars, replace(FEEDING, name="other", outputs={"x": ActionOutput(action="ALARM")}))
    create_correlator(cars, FEEDING)
    with pytest.raises(FeedbackLoop, match="it feeds itself: back pushes x, event f3 on topic cars"):
        create_correlator(cars, replace(FEEDING, name="back", outputs={"x": EventOutput(event="f3", topic="cars")}))
