"""What an operator types: the queue, one action, pause and resume, nodes. Tables are readable at 80 columns."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from uuid import uuid4

import pytest

from headrace.actions import Action, queue_state, send_action
from headrace.core import LoggedEvent
from headrace.db import AsyncConnection, Connection, Target
from headrace.node import Headrace, Identity, Node
from headrace.rules import Rule, create_rule
from tests.builders import publish, topic, wait_until
from tests.cli.conftest import Cli

pytestmark = pytest.mark.lane("pg18")

app = Headrace()


@app.consumer("orders")
async def billing(event: LoggedEvent, tx: AsyncConnection) -> None: ...


@app.handler("MAIL", attempts=3, backoff_s=3600, backoff_max_s=7200)
async def mail(action: Action, tx: AsyncConnection) -> None:
    if action.payload == 13:
        raise ValueError("mailbox is full\nsecond line")


async def run_node(database: Target, conn: Connection) -> None:
    """A node with a rule: events 1 and 13 become actions; the second one fails and waits for its retry."""
    topic(conn)
    create_rule(conn, Rule(name="mail", topic="orders", event_type="placed", action="MAIL"))
    node = Node(app, [database], identity=Identity(name="web-1.example.org"))
    running = asyncio.create_task(node.run())
    try:
        for n in (1, 13):
            publish(conn, n)
        ends = "select (select count(*) from headrace.action_result), (select count(*) from headrace.attempt)"
        await asyncio.to_thread(wait_until, lambda: conn.execute(ends).fetchone() == (1, 1), "the ends of both actions")
        for registry in (database_loops._registry for database_loops in node._databases):
            await registry.heartbeat()
    finally:
        node.stop()
        await running


async def test_queue_shows_what_retries_and_why(cli: Cli, conn: Connection, database: Target) -> None:
    await run_node(database, conn)
    send_action(conn, "LATER", delay=timedelta(hours=1))
    [state] = cli("action", "queue", "--json").json
    assert (state["retrying"], state["delayed"], state["in_flight"], state["due"]) == (1, 1, 0, 0)
    [failed] = cli("action", "queue", "--state", "retrying", "--json").json[0]["actions"]
    assert (failed["action"], failed["attempts"], failed["attempts_max"]) == ("MAIL", 1, 3)
    assert failed["error"].startswith("ValueError: mailbox is full") and failed["cause"]["rule"] == "mail"
    text = cli("action", "queue").out
    assert "1/3" in text and "mailbox is full" in text and "second line" not in text
    assert cli("action", "queue", "--older-than", "1 minute", "--json").json[0]["actions"] == []
    assert cli("action", "queue", "--state", "sleeping").code == 2

    shown = cli("action", "show", failed["action_id"], "--json").json
    assert (shown["state"], shown["cause"]["rule"], len(shown["attempts"])) == ("retrying", "mail", 1)
    text = cli("action", "show", failed["action_id"]).out
    assert "rule mail, version 1 on orders, position 2" in text and "mailbox is full" in text
    assert cli("action", "run", failed["action_id"], "--json").json == {"due": 1}
    assert cli("action", "priority", "7", failed["action_id"], "--json").json == {"priority": 7, "changed": 1}
    assert cli("action", "cancel", failed["action_id"], "--json").json == {"cancelled": 1}
    assert cli("action", "show", failed["action_id"], "--json").json["state"] == "cancelled"
    again = cli("action", "cancel", failed["action_id"], "--json")
    assert (again.code, again.error["error"]) == (4, "Conflict") and "is cancelled" in again.error["message"]


async def test_action_that_is_done_still_shows_its_cause_and_its_node(cli: Cli, conn: Connection, database: Target) -> None:
    await run_node(database, conn)
    row = conn.execute("select action_id, event_id from headrace.action_result").fetchone()
    assert row is not None
    shown = cli("action", "show", str(row[0]), "--json").json
    assert (shown["state"], shown["cause"]["rule"], shown["cause"]["position"]) == ("done", "mail", 1)
    assert shown["cause"]["event_id"] == str(row[1])
    [(node,)] = conn.execute("select name from headrace.node").fetchall()
    text = cli("action", "show", str(row[0])).out
    assert node in text and "rule mail, version 1" in text and str(row[1]) in text
    trace = cli("trace", str(row[1]), "--json").json
    assert [action["state"] for action in trace[0]["actions"]] == ["done"]


def test_unknown_actions_and_empty_selections_are_errors(cli: Cli, conn: Connection) -> None:
    nobody = str(uuid4())
    for words in (("show", nobody), ("cancel", nobody), ("run", nobody), ("priority", "1", nobody)):
        answer = cli("action", *words, "--json")
        assert (answer.code, answer.error["error"]) == (3, "UnknownAction")
    for words in (("cancel",), ("run",), ("priority", "1"), ("cancel", nobody, "--action", "MAIL")):
        assert cli("action", *words).code == 2
    send_action(conn, "MAIL")
    assert cli("action", "cancel", "--action", "MAIL", "--json").code == 2, "many actions need --yes"
    assert cli("action", "cancel", "--action", "MAIL", "--yes", "--json").json == {"cancelled": 1}


def test_unique_key_of_a_sent_action(cli: Cli, conn: Connection) -> None:
    first = cli("action", "send", "MAIL", "--unique-key", "k", "--unique-for", "1 hour", "--json").json["id"]
    assert cli("action", "send", "MAIL", "--unique-key", "k", "--json").json["id"] == first
    assert queue_state(conn).queued == 1
    assert cli("action", "send", "MAIL", "--unique-for", "1 hour").code == 2


def test_one_pair_of_verbs_pauses_everything(cli: Cli, conn: Connection) -> None:
    topic(conn)
    create_rule(conn, Rule(name="r", topic="orders", event_type="placed", action="MAIL"))
    conn.execute("select headrace.create_consumer('orders', 'billing')")
    conn.execute("insert into headrace.schedule (schedule, cron, topic, type) values ('daily', '0 6 * * *', 'orders', 'due')")
    subjects = [["consumer", "orders/billing"], ["rule", "r"], ["schedule", "daily"], ["action", "MAIL"], ["queue"]]
    for words in subjects:
        assert cli("pause", *words, "--json").json["changed"] is True
        assert cli("pause", *words, "--json").json["changed"] is False
    pauses = cli("pause", "--json").json
    assert [(one["kind"], one["name"]) for one in pauses] == [
        ("action", "MAIL"), ("consumer", "orders/billing"), ("queue", ""), ("rule", "r"), ("schedule", "daily"),
    ]  # fmt: skip
    [consumer] = [one for one in cli("consumer", "list", "--json").json if one["consumer"] == "billing"]
    assert consumer["state"] == "paused"
    assert "paused" in cli("rule", "list").out and cli("rule", "show", "r", "--json").json[0]["paused"] is True
    assert cli("action", "queue", "--json").json[0]["paused"] is True
    for words in subjects:
        assert cli("resume", *words, "--json").json["resumed"] > 0, words
        assert "was not paused" in cli("resume", *words).out
    assert cli("pause", "--json").json == []
    assert cli("pause", "consumer").code == 2 and cli("pause", "queue", "x").code == 2 and cli("pause", "topic", "x").code == 2
    answer = cli("pause", "rule", "nobody", "--json")
    assert (answer.code, answer.error["error"]) == (3, "UnknownRule")


async def test_node_shows_its_consumers_and_rates_and_is_forgotten_when_lost(
    cli: Cli, conn: Connection, database: Target
) -> None:
    await run_node(database, conn)
    [(name,)] = conn.execute("select name from headrace.node").fetchall()
    [node] = cli("node", "show", name, "--json").json
    [consumer] = node["report"]["consumers"]
    assert (consumer["topic"], consumer["consumer"], consumer["partitions"]) == ("orders", "billing", [0])
    assert consumer["events_per_min"] > 0 and node["report"]["actions"][0]["per_min"] > 0 and node["sequencer"] is True
    assert "billing" in cli("node", "show", name).out and "per min" in cli("node", "list", "--stopped").out
    conn.execute("update headrace_internal.node set stopped_at = null")
    alive = cli("node", "forget", name, "--json")
    assert (alive.code, alive.error["error"]) == (4, "Conflict") and "is alive" in alive.error["message"]
    assert cli("node", "forget", "--lost", "--json").json == {"forgotten": 0}
    conn.execute("update headrace_internal.node set heartbeat_at = heartbeat_at - interval '2 minutes'")
    assert cli("node", "forget", "--lost", "--json").json == {"forgotten": 1}
    assert cli("node", "forget", name, "--json").error["error"] == "UnknownNode"
    assert cli("node", "show", name, "--json").error["error"] == "UnknownNode"
    assert cli("node", "forget").code == 2


async def test_tables_fit_80_columns(cli: Cli, conn: Connection, database: Target, monkeypatch: pytest.MonkeyPatch) -> None:
    """No id, name or state is broken over two lines."""
    await run_node(database, conn)
    monkeypatch.setattr("headrace.cli.output.PIPE_COLUMNS", 80)
    [failed] = cli("action", "queue", "--json").json[0]["actions"]
    text = cli("action", "queue").out
    assert max(map(len, text.splitlines())) <= 80
    [row] = [line for line in text.splitlines() if line.strip().startswith(failed["action_id"]) and "MAIL" in line]
    assert "retrying" in row and "1/3" in row
    nodes = cli("node", "list", "--stopped").out
    assert max(map(len, nodes.splitlines())) <= 80 and "orders/billing" in nodes and "MAIL" in nodes
    cli("pause", "consumer", "orders/billing", "--reason", "the provider is down")
    pauses = cli("pause").out
    assert max(map(len, pauses.splitlines())) <= 80 and "orders/billing" in pauses
