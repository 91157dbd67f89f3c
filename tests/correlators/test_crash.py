"""Kill -9 in the middle of correlation: the outputs are those of the interpreter's replay of the log, none twice."""

from __future__ import annotations

import random
import subprocess
import time
from datetime import UTC, datetime, timedelta

import pytest

from headrace.correlators import ActionOutput, Correlator, EventOutput, create_correlator
from headrace.db import Connection, Target
from headrace.lang.condition import Sample
from headrace.lang.ecl import Event, Interpreter, parse
from tests.builders import start_python, topic, wait_until

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
PATTERNS = {
    "simple": "repeat {push(x) {do {sequential {a, b, a}} unless {c}}}",
    "timed": "repeat {push(late) {sequential {a, fail {within 200 ms {b}}}}}",
    "wide": "parallel {repeat {push(x) {sequential {a, b}}}, repeat {push(y) {accumulate {b, c}}}}",
}
pytestmark = [pytest.mark.lane("pg18"), pytest.mark.timeout(200)]


@pytest.fixture
def conn(database: Target, conn: Connection) -> Connection:
    """With the real queue again: what was sent has to be counted there."""
    topic(conn, "cars")
    topic(conn, "alerts")
    for name, pattern in PATTERNS.items():
        outputs = {
            "x": ActionOutput(action="X"),
            "y": EventOutput(event="y", topic="alerts"),
            "late": ActionOutput(action="L"),
        }
        wanted = {token: output for token, output in outputs.items() if f"push({token})" in pattern}
        create_correlator(conn, Correlator(name=name, topic="cars", key="key", pattern=pattern, outputs=wanted))
    return conn


def start(database: Target) -> subprocess.Popen[str]:
    return start_python("tests.correlators.processes", database.dsn)


def count(conn: Connection, text: str) -> int:
    row = conn.execute(f"select count(*) from {text}").fetchone()
    assert row is not None
    return int(row[0])


def publish_some(conn: Connection, events: int) -> None:
    conn.execute(
        """select headrace.publish('cars', (array['a', 'b', 'c'])[1 + floor(random() * 3)::int], '1',
               p_key => 'k' || floor(random() * 40)::int) from generate_series(1, %s)""",
        (events,),
    )


def replayed(conn: Connection, pattern: str) -> list[tuple[str, str, datetime]]:
    """Key, token and time of every output, by the interpreter: each key's events, then the silence up to now."""
    engine = Interpreter(parse(pattern))
    rows = conn.execute(
        "select key, type, appended_at from headrace.log where topic_id = headrace.topic_id('cars') order by position"
    ).fetchall()
    states: dict[str, object] = {}
    outputs: list[tuple[str, str, datetime]] = []
    for key, type_, at in rows:
        now = (at - EPOCH) // timedelta(microseconds=1)
        state = states.get(key) or engine.start(now)
        states[key], pushed = engine.step(state, Event(type_, now, Sample(1, type_, key=key)))  # type: ignore[arg-type]
        outputs += [(key, output.token, EPOCH + timedelta(microseconds=output.time)) for output in pushed]
    end = (datetime.now(UTC) - EPOCH) // timedelta(microseconds=1)
    for key, state in states.items():
        _, pushed = engine.advance(state, end)  # type: ignore[arg-type]
        outputs += [(key, output.token, EPOCH + timedelta(microseconds=output.time)) for output in pushed]
    return sorted(outputs)


def test_killed_nodes_push_what_a_replay_of_the_log_pushes_and_nothing_twice(conn: Connection, database: Target) -> None:
    random.seed(11)
    node = start(database)
    try:
        wait_until(lambda: count(conn, "headrace.correlator where status = 'valid'") == len(PATTERNS), "compiling")
        for _ in range(4):
            seen = count(conn, "headrace.correlation")
            for _ in range(random.randint(3, 8)):
                publish_some(conn, random.randint(50, 400))
                time.sleep(random.random() / 10)
            wait_until(lambda seen=seen: count(conn, "headrace.correlation") > seen, "progress after a kill")  # type: ignore[misc]
            node.kill()
            node.wait()
            node = start(database)
        passed = "headrace.consumer_lag where consumer like 'headrace.correlator.%' and lag_events > 0"
        wait_until(
            lambda: count(conn, "headrace.outbox where topic_id = headrace.topic_id('cars')") == 0,
            "an empty outbox",
        )
        wait_until(lambda: count(conn, passed) == 0, "correlating every event")
        wait_until(lambda: count(conn, "headrace.correlator_instance where deadline is not null") == 0, "firing every timer")
        wait_until(lambda: count(conn, "headrace.outbox") == 0, "an empty outbox")
    finally:
        node.kill()
        node.wait()
    check(conn)


def check(conn: Connection) -> None:
    """The laws: outputs are the replay's; each became one action or one event."""
    for name, pattern in PATTERNS.items():
        rows = conn.execute(
            "select key, token, output_at from headrace.correlation_history where correlator = %s order by 1, 2, 3", (name,)
        ).fetchall()
        assert sorted(rows) == replayed(conn, pattern), name
        assert len(rows) > 50, name
    ids = conn.execute("select action ->> 'id' from public.sent").fetchall()
    assert len(ids) == len(set(ids)) == count(conn, "headrace.correlation where becomes = 'action'")
    events = count(conn, "headrace.log where topic_id = headrace.topic_id('alerts')")
    assert events == count(conn, "headrace.correlation where becomes = 'event'") > 50
