"""`headrace schedule`, `headrace namespace` and `headrace node list`."""

from __future__ import annotations

from datetime import datetime
from uuid import uuid4

import psycopg
import pytest

from headrace.db import Connection
from tests.builders import drain, topic
from tests.cli.conftest import Cli

pytestmark = pytest.mark.lane("pg18")


def test_schedule_is_created_altered_paused_run_and_dropped(cli: Cli, conn: Connection) -> None:
    topic(conn, "reports")
    options = ["--topic", "reports", "--type", "report.due", "--payload", '{"kind": "daily"}', "--zone", "Europe/Berlin"]
    created = cli("schedule", "create", "daily", "30 6 * * MON-FRI", *options, "--json").json
    assert (created["schedule"], created["shard"]) == ("daily", "main")
    assert cli("schedule", "create", "daily", "* * * * *", *options).code == 4
    ticks = [datetime.fromisoformat(tick) for tick in cli("schedule", "next", "daily", "-n", "3", "--json").json]
    assert len(ticks) == 3 and all(tick.minute == 30 for tick in ticks)
    assert "Europe/Berlin" in cli("schedule", "next", "daily").out
    assert cli("schedule", "alter", "daily", "--cron", "15 7 * * *", "--missed", "one").code == 0
    assert cli("schedule", "pause", "daily").code == 0
    [listed] = cli("schedule", "list", "--json").json
    assert (listed["cron"], listed["missed"], listed["state"]) == ("15 7 * * *", "one", "paused")
    event_id = cli("schedule", "run", "daily").out.strip()
    drain(conn)
    assert conn.execute("select event_id::text, payload from headrace.log").fetchall() == [(event_id, {"kind": "daily"})]
    assert [tick["outcome"] for tick in cli("schedule", "history", "daily", "--json").json] == ["manual"]
    assert cli("schedule", "resume", "daily").code == 0
    assert cli("schedule", "show", "daily", "--json").json["state"] == "active"
    assert cli("schedule", "drop", "daily", "--yes").code == 0
    assert cli("schedule", "list", "--json").json == []


def test_unknown_schedule_is_an_error_of_every_command(cli: Cli) -> None:
    for command, *options in (["show"], ["pause"], ["resume"], ["run"], ["next"], ["history"], ["drop", "--yes"]):
        answer = cli("schedule", command, "nowhere", *options, "--json")
        assert (answer.code, answer.error["error"]) == (3, "UnknownSchedule"), command


def test_invalid_schedules_are_rejected(cli: Cli, conn: Connection) -> None:
    topic(conn, "reports")
    options = ["--topic", "reports", "--type", "report.due"]
    assert cli("schedule", "create", "bad", "61 * * * *", *options, "--json").error["error"] == "InvalidCron"
    assert (
        cli("schedule", "create", "bad", "* * * * *", *options, "--zone", "Mars/Base", "--json").error["error"]
        == "InvalidTimeZone"
    )
    assert cli("schedule", "create", "bad", "* * * * *", *options, "--payload", "{").code == 5
    assert cli("schedule", "create", "bad", "* * * * *", "--topic", "nowhere", "--type", "a").code == 3
    assert cli("schedule", "alter", "bad").code == 2
    assert cli("schedule", "list", "--json").json == []


@pytest.fixture
def role(conn: Connection) -> str:
    name = f"role_{uuid4().hex[:8]}"
    try:
        conn.execute(psycopg.sql.SQL("create role {}").format(psycopg.sql.Identifier(name)))
    except psycopg.errors.InsufficientPrivilege:
        pytest.skip("the test's role cannot create roles")
    return name


def test_namespace_is_created_granted_and_dropped(cli: Cli, role: str) -> None:
    assert cli("namespace", "create", "shop", "--json").json == {"namespace": "shop"}
    assert cli("namespace", "create", "shop").code == 4
    assert cli("namespace", "grant", "shop", role, "publish").code == 0
    assert cli("namespace", "grant", "shop", role, "emperor").code == 2
    assert cli("namespace", "grant", "shop", "nobody_like_that", "publish").code == 3
    [granted] = cli("namespace", "grants", "shop", "--json").json
    assert (granted["role"], granted["level"]) == (role, "publish")
    assert cli("namespace", "alter", "shop", "--unknown-names", "refuse").code == 0
    assert cli("namespace", "alter", "nowhere", "--unknown-names", "refuse").code == 3
    listed = {row["namespace"]: row for row in cli("namespace", "list", "--json").json}
    assert (listed["shop"]["roles"], listed["shop"]["unknown_names"], listed["default"]["unknown_names"]) == (1, "refuse", "warn")
    assert cli("topic", "create", "orders", "--namespace", "shop").code == 0
    assert cli("namespace", "drop", "shop", "--yes").code == 4
    assert cli("topic", "drop", "orders", "--namespace", "shop", "--yes").code == 0
    assert cli("namespace", "revoke", "shop", role).code == 0
    assert cli("namespace", "drop", "shop", "--yes").code == 0


def test_nodes_are_listed_alive_lost_and_stopped(cli: Cli, conn: Connection) -> None:
    for name in ("alive", "lost", "stopped"):
        conn.execute("select headrace.register_node(%s, %s, '1', '{MAIL}')", (uuid4(), name))
    conn.execute("update headrace_internal.node set heartbeat_at = heartbeat_at - interval '1 hour' where name = 'lost'")
    conn.execute("update headrace_internal.node set stopped_at = headrace.clock() where name = 'stopped'")
    assert [(node["name"], node["state"]) for node in cli("node", "list", "--json").json] == [
        ("alive", "alive"),
        ("lost", "lost"),
    ]
    assert len(cli("node", "list", "--stopped", "--json").json) == 3
    assert "MAIL" in cli("node", "list").out
    assert cli("action", "list", "--json").json[0]["nodes"] == 1
