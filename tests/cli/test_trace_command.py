"""`headrace trace`: the hihistory of an event, from the log to the end of its actions."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from uuid import UUID, uuid4

import pytest

from headrace.actions import Action
from headrace.core import Event
from headrace.correlators import ActionOutput, Correlator, CorrelatorEngine, create_correlator
from headrace.db import AsyncConnection, Connection, Target
from headrace.log.outbox import publish_many
from headrace.node import Headrace, Node
from headrace.rules import Rule, create_rule
from tests.builders import drain, shift_clock, topic
from tests.cli.conftest import Cli
from tests.correlators.steps import settle_correlators
from tests.rules.conftest import correlators

__all__ = ["correlators"]

pytestmark = pytest.mark.lane("pg18")

WAIT_S = 30.0
app = Headrace()


@app.handler("NOTIFY")
async def notify(action: Action, tx: AsyncConnection) -> None:
    await tx.execute("select 1")


@app.handler("CHARGE", attempts=2, backoff_s=0.01)
async def charge(action: Action, tx: AsyncConnection) -> None:
    raise ValueError("no money")


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(WAIT_S):
        while not holds():
            await asyncio.sleep(0.02)


async def run_node(database: Target, conn: Connection, event: Event, results: int) -> None:
    """Runs a node until the rules have handled the event and this many actions have ended."""
    node = Node(app, [database])
    running = asyncio.create_task(node.run())
    try:
        await until(lambda: conn.execute("select bool_and(status <> 'pending') from headrace.rule").fetchone() == (True,))
        publish_many(conn, [event, Event(topic="cars", type="NEW_CAR", id=uuid4(), payload={"hp": 1})])
        await until(lambda: conn.execute("select count(*) from headrace.action_result").fetchone() == (results,))
        await until(lambda: conn.execute("select count(*) from headrace.event_unmatched").fetchone() == (1,))
    finally:
        node.stop()
        await running


def test_trace_shows_the_hihistory_to_its_end(cli: Cli, conn: Connection, database: Target) -> None:
    topic(conn, "cars")
    conn.execute("update headrace_internal.namespace set unknown_names = 'allow'")
    for name, condition, action in (("fast", "> 1000", "NOTIFY"), ("dear", "> 1500", "CHARGE"), ("slow", "< 0", "NOTIFY")):
        condition = f"(object -> 'hp')::int {condition}"
        create_rule(conn, Rule(name=name, topic="cars", event_type="NEW_CAR", condition=condition, action=action))
    event = Event(topic="cars", type="NEW_CAR", key="k", payload={"hp": 1600})
    asyncio.run(run_node(database, conn, event, 2))
    [history] = cli("trace", str(event.id), "--json").json
    assert (history["topic"], history["type"], history["key"], history["outcome"]) == ("cars", "NEW_CAR", "k", "matched")
    assert history["position"] in (1, 2)
    assert {one["rule"]: (one["answer"], one["fired"]) for one in history["looks"]} == {
        "fast": (True, True), "dear": (True, True), "slow": (False, False),
    }  # fmt: skip
    actions = {one["firing"]["action"]: one for one in history["actions"]}
    assert (actions["NOTIFY"]["state"], actions["NOTIFY"]["attempts"]) == ("done", [])
    assert actions["CHARGE"]["state"] == "dead"
    assert [(one["attempt"], one["error"], one["follows"]) for one in actions["CHARGE"]["attempts"]] == [
        (1, "ValueError: no money", "retry"), (2, "ValueError: no money", "dead"),
    ]  # fmt: skip
    text = cli("trace", str(event.id)).out
    assert "matched" in text and "no money" in text and "dead letter 1" in text

    cli("dead-letter", "redrive", str(actions["CHARGE"]["dead_letter_id"]))
    assert states(cli, event.id) == {"NOTIFY": "done", "CHARGE": "redriven"}


def test_trace_shows_who_has_handled_the_event_and_who_has_not(cli: Cli, conn: Connection) -> None:
    topic(conn, "cars")
    for name in ("ahead", "behind", "idle", "stopped", "retrying", "buried"):
        cli("consumer", "create", "cars", name, "--on-failure", "stop" if name == "stopped" else "dead-letter")
    run = "{cars/ahead,cars/behind,cars/stopped,cars/retrying,cars/buried}"
    conn.execute("select headrace.register_node('00000000-0000-7000-8000-000000000001', 'n', '1')")
    conn.execute("select headrace.register_consumers('00000000-0000-7000-8000-000000000001', %s)", (run,))
    first, event = (Event(topic="cars", type="NEW_CAR", payload={}) for _ in range(2))
    publish_many(conn, [first, event])
    drain(conn)
    ids = dict(conn.execute("select consumer, consumer_id from headrace.consumer").fetchall())
    for name, position in (("ahead", 2), ("stopped", 1), ("retrying", 1), ("buried", 1)):
        conn.execute("select headrace.advance(%s, 0, %s)", (ids[name], position))
    for name in ("stopped", "retrying", "buried", "buried", "buried", "buried", "buried"):
        conn.execute("select headrace.fail(%s, 0, 1, 2, 1, %s)", (ids[name], "ValueError: no price\nsecond line"))
        conn.execute("update headrace_internal.cursor set retry_at = null where consumer_id = %s", (ids["buried"],))
    cli("consumer", "create", "cars", "late", "--start", "latest")
    [history] = cli("trace", str(event.id), "--json").json
    assert {one["consumer"]: one["state"] for one in history["consumers"]} == {
        "ahead": "handled",
        "behind": "waiting",
        "buried": "dead letter",
        "idle": "idle",
        "late": "passed",
        "retrying": "retrying",
        "stopped": "stopped",
    }
    text = cli("trace", str(event.id)).out
    assert "idle: no node runs it" in text and "ValueError: no price" in text
    waiting = Event(topic="cars", type="NEW_CAR", payload={})
    publish_many(conn, [waiting])
    assert cli("trace", str(waiting.id), "--json").json[0]["consumers"] == []


async def test_trace_shows_what_a_timer_produced_because_of_the_event(
    cli: Cli, conn: Connection, correlators: CorrelatorEngine
) -> None:
    topic(conn, "cars")
    pattern = "repeat {push(late) {sequential {departed, fail {within 10 s {arrived}}}}}"
    late = Correlator(name="late", topic="cars", key="key", pattern=pattern, outputs={"late": ActionOutput(action="LATE")})
    create_correlator(conn, late)
    await settle_correlators(correlators, conn)
    event, other = (Event(topic="cars", type="departed", key=key, payload={}) for key in ("k", "other"))
    publish_many(conn, [event, other, Event(topic="cars", type="arrived", key="other", payload={})])
    drain(conn)
    await settle_correlators(correlators, conn)
    shift_clock(conn, "1 minute")
    async with correlators._pool.connection() as own:
        await own.execute("select set_config('headrace.clock_shift', '1 minute', false)")
    assert await settle_correlators(correlators, conn) == 1
    [history] = cli("trace", str(event.id), "--json").json
    assert [(one["correlator"], one["token"], one["name"], one["timer"]) for one in history["pushed"]] == [
        ("late", "late", "LATE", True)
    ]
    assert "timer" in cli("trace", str(event.id)).out
    assert cli("trace", str(other.id), "--json").json[0]["pushed"] == []


def states(cli: Cli, event_id: UUID) -> dict[str, str]:
    [history] = cli("trace", str(event_id), "--json").json
    return {one["firing"]["action"]: one["state"] for one in history["actions"]}


def test_trace_shows_the_trace_of_the_publisher(cli: Cli, conn: Connection) -> None:
    topic(conn, "cars")
    trace_id = "0af7651916cd43dd8448eb211c80319c"
    contexts = (f"00-{trace_id}-b7ad6b7169203331-01", "not a context")
    traced, malformed = (Event(topic="cars", type="NEW_CAR", headers={"traceparent": value}) for value in contexts)
    publish_many(conn, [traced, malformed])
    assert cli("trace", str(traced.id), "--json").json[0]["trace_id"] == trace_id
    assert trace_id in cli("trace", str(traced.id)).out
    assert cli("trace", str(malformed.id), "--json").json[0]["trace_id"] is None


def test_waiting_event_is_shown_and_unknown_event_is_an_error(cli: Cli, conn: Connection) -> None:
    topic(conn, "cars")
    event = Event(topic="cars", type="NEW_CAR", payload={})
    publish_many(conn, [event])
    [history] = cli("trace", str(event.id), "--json").json
    assert (history["position"], history["outcome"]) == (None, "waiting")
    assert "not in the log yet" in cli("trace", str(event.id)).out
    assert cli("trace", str(uuid4()), "--json").error["error"] == "UnknownEvent"
    assert cli("trace", "4711").code == 2
