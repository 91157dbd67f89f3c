"""`headrace relay`: create, show, pause, move, backtest, drop."""

from __future__ import annotations

from pathlib import Path

from headrace.db import Connection
from tests.builders import drain, topic
from tests.cli.conftest import Cli

HOOK = ("--topic", "orders", "--target", "webhook", "-o", "url=https://crm.example/hook", "-o", "secret=env:RELAY_CRM")


def test_a_relay_from_its_creation_to_its_drop(cli: Cli, conn: Connection) -> None:
    topic(conn)
    conn.execute("select headrace.publish('orders', 'paid', jsonb_build_object('total', n)) from generate_series(1, 5) n")
    drain(conn)
    created = cli(
        "relay", "create", "crm", *HOOK, "-o", "timeout_s=5", "--start", "earliest", "--condition", "(object -> 'total')::int > 3"
    )
    assert created.code == 0 and "relay crm created" in created.out
    [listed] = cli("relay", "list", "--json").json
    assert (listed["relay"], listed["status"], listed["lag_events"]) == ("crm", "pending", 5)
    [shown] = cli("relay", "show", "crm", "--json").json
    assert shown["options"] == {"url": "https://crm.example/hook", "secret": "env:RELAY_CRM", "timeout_s": 5}
    assert "env:RELAY_CRM" in cli("relay", "show", "crm").out
    tested = cli("relay", "backtest", "crm", "--json").json
    assert (tested["events"], tested["messages"], tested["samples"][0]["body"]) == (5, 2, {"total": 4})
    assert "2 messages of 24 bytes for the 5 events" in cli("relay", "backtest", "crm").out
    assert cli("relay", "alter", "crm", "--format", "cloudevents", "-o", "timeout_s=7").code == 0
    assert [version["format"] for version in cli("relay", "versions", "crm", "--json").json] == ["stored", "cloudevents"]
    assert "is paused" in cli("relay", "pause", "crm", "--reason", "quiet").out
    assert "quiet" in cli("relay", "list").out
    assert cli("pause", "--json").json[0]["kind"] == "relay"
    assert "1 partitions" in cli("relay", "resume", "crm").out
    assert cli("relay", "seek", "crm", "latest", "--dry-run", "--json").json["skipped"] == 5
    assert cli("relay", "seek", "crm", "4", "--yes", "--json").json == {
        "relay": "crm", "moved": True, "delivered_again": 0, "skipped": 3,
    }  # fmt: skip
    assert cli("relay", "drop", "crm", "--yes").code == 0
    missing = cli("relay", "show", "crm")
    assert missing.code == 3 and "there is no relay 'crm'" in missing.err


def test_mistakes_have_exit_codes_and_show_no_secret(cli: Cli, conn: Connection) -> None:
    topic(conn)
    wrong = cli(
        "relay",
        "create",
        "crm",
        "--topic",
        "orders",
        "--target",
        "webhook",
        "-o",
        "url=https://x.example",
        "-o",
        "secret=hunter2",
    )
    assert wrong.code == 5 and "secret in clear text" in wrong.err and "hunter2" not in wrong.err
    assert cli("relay", "create", "crm", *HOOK, "--format", "template").code == 5
    assert cli("relay", "create", "crm", *HOOK, "-o", "oops").code == 2


def test_a_file_with_relays_is_planned_and_tried(cli: Cli, conn: Connection, tmp_path: Path) -> None:
    topic(conn)
    file = tmp_path / "shop.yaml"
    file.write_text("relays:\n  - {name: crm, topic: orders, target: webhook, options: {url: 'https://crm.example'}}\n")
    planned = cli("plan", str(file))
    assert "orders → webhook" in planned.out and "1 to create" in planned.out
    assert cli("relay", "backtest", str(file), "--json").json["messages"] == 0
    assert cli("apply", str(file), "--yes").code == 0
    assert "1 unchanged" in cli("plan", str(file)).out
