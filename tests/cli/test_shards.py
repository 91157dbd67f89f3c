"""Rules, schedules, actions and dead letters where there are several shards."""

from __future__ import annotations

from collections import Counter
from uuid import uuid4

import psycopg
import pytest

from headrace.db import Server
from tests.cli.conftest import Cli, call

pytestmark = pytest.mark.lane("pg18")


@pytest.fixture
def shards(server: Server) -> Cli:
    """Calls `headrace` on two shards with a topic `cars`."""
    addresses = []
    for name in ("one", "two"):
        database = f"shard_{uuid4().hex}"
        with psycopg.connect(server.dsn(), autocommit=True) as admin:
            admin.execute(f"create database {database} template headrace_template")
        addresses.append(f"{name}={server.dsn(database)}")

    def cli(*words: str, stdin: str | None = None) -> object:
        return call(*words, "--dsn", " ".join(addresses), stdin=stdin)

    call("topic", "create", "cars", "--dsn", " ".join(addresses))
    return cli  # type: ignore[return-value]


def test_rule_is_on_every_shard(shards: Cli) -> None:
    shards("rule", "create", "fast", "--topic", "cars", "--event-type", "NEW_CAR", "--action", "NOTIFY")
    shards("rule", "alter", "fast", "--priority", "2")
    listed = shards("rule", "list", "--json").json
    assert [(one["shard"], one["name"], one["priority"]) for one in listed] == [("one", "fast", 2), ("two", "fast", 2)]
    shards("rule", "drop", "fast", "--yes")
    assert shards("rule", "list", "--json").json == []


def test_schedule_is_on_one_shard_so_that_a_tick_is_one_event(shards: Cli) -> None:
    for number in range(8):
        shards("schedule", "create", f"tick-{number}", "* * * * *", "--topic", "cars", "--type", "TICK")
    where = {one["name"]: one["shard"] for one in shards("schedule", "list", "--json").json}
    assert len(where) == 8 and set(where.values()) == {"one", "two"}
    for number in range(8):
        assert shards("schedule", "pause", f"tick-{number}").code == 0
    assert {one["state"] for one in shards("schedule", "list", "--json").json} == {"paused"}
    assert shards("schedule", "pause", "nowhere").code == 3


def test_action_goes_where_its_key_belongs(shards: Cli) -> None:
    sent = [shards("action", "send", "MAIL", "--key", f"k{number}", "--json").json["shard"] for number in range(8)]
    queues = {one["shard"]: one["due"] for one in shards("action", "queue", "--json").json}
    assert queues == Counter(sent) and len(queues) == 2


def test_number_of_a_dead_letter_needs_one_shard(shards: Cli) -> None:
    assert shards("dead-letter", "redrive", "1").code == 2
    assert shards("dead-letter", "redrive", "--all", "--json").json == {"redriven": 0}
    assert shards("trace", str(uuid4()), "--json").error["error"] == "UnknownEvent"
