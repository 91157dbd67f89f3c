"""`headrace action` and the dead letters of actions."""

from __future__ import annotations

from uuid import UUID

import pytest

from headrace.db import Connection
from tests.cli.conftest import Cli

pytestmark = pytest.mark.lane("pg18")


def bury(conn: Connection, error: str, count: int = 1) -> None:
    """The first actions in the queue become dead letters."""
    ids = [row[0] for row in conn.execute("select msg_id from pgmq.read('hr_default', 30, %s)", (count,))]
    conn.execute("select headrace.bury_actions(%s, 'failed', %s, 'Traceback …', null, null)", (ids, error))


def queue(cli: Cli) -> tuple[int, int, int]:
    [state] = cli("action", "queue", "--json").json
    return state["due"], state["delayed"], state["dead"]


def test_actions_are_sent_to_the_queue(cli: Cli, conn: Connection) -> None:
    action = cli("action", "send", "MAIL", '{"to": 12345678901234567890}', "--key", "ada", "--json").json
    assert (action["action"], action["shard"], bool(UUID(action["id"]))) == ("MAIL", "main", True)
    cli("action", "send", "MAIL", "--delay", "1 hour", "--priority", "3")
    assert queue(cli) == (1, 1, 0)
    row = conn.execute("select message from pgmq.q_hr_default order by msg_id limit 1").fetchone()
    assert row is not None
    assert (row[0]["id"], row[0]["payload"], row[0]["key"]) == (action["id"], {"to": 12345678901234567890}, "ada")
    assert cli("action", "send", "MAIL", "{").code == 5
    assert cli("action", "send", "not a name").code == 5


def test_dead_letters_are_grouped_edited_redriven_and_discarded(cli: Cli, conn: Connection) -> None:
    for n in range(4):
        cli("action", "send", "MAIL" if n < 3 else "CALL", f'{{"n": {n}}}')
    bury(conn, "ValueError: no address 7", 3)
    bury(conn, "OSError: line is busy")
    letters = cli("dead-letter", "list", "--json").json
    assert [(letter["kind"], letter["letter"], letter["action"], letter["payload"]["n"]) for letter in letters] == [
        ("action", "1", "MAIL", 0), ("action", "2", "MAIL", 1), ("action", "3", "MAIL", 2), ("action", "4", "CALL", 3),
    ]  # fmt: skip
    groups = cli("dead-letter", "groups", "--json").json
    assert [(group["subject"], group["error"], group["dead"]) for group in groups] == [
        ("action MAIL", "ValueError: no address #", 3), ("action CALL", "OSError: line is busy", 1),
    ]  # fmt: skip
    assert cli("dead-letter", "edit", "1", '{"n": 100}').code == 0
    shown = cli("dead-letter", "show", "1", "--json").json
    assert (shown["payload"], shown["edited"], shown["envelope"]["payload"]) == ({"n": 100}, True, {"n": 0})
    assert "no address" in cli("dead-letter", "show", "1").out
    assert cli("dead-letter", "redrive", "1", "--json").json == {"redriven": 1}
    assert cli("dead-letter", "redrive", "--error", "ValueError: no address #", "--json").json == {"redriven": 2}
    assert queue(cli) == (3, 0, 1)
    assert len(cli("dead-letter", "list", "--ended", "--json").json) == 4
    assert cli("dead-letter", "discard", "--action", "CALL", "--yes", "--json").json == {"discarded": 1}
    assert cli("dead-letter", "discard", "--all", "--redriven", "--yes", "--json").json == {"discarded": 3}
    assert cli("dead-letter", "list", "--ended", "--json").json == []


def test_command_without_a_selection_is_rejected(cli: Cli, conn: Connection) -> None:
    cli("action", "send", "MAIL")
    bury(conn, "ValueError: no")
    assert cli("dead-letter", "redrive").code == 2
    assert cli("dead-letter", "discard", "--yes").code == 2
    assert cli("dead-letter", "redrive", "1", "--all").code == 2
    assert cli("dead-letter", "discard", "1").code == 1, "it asks first"
    assert len(cli("dead-letter", "list", "--json").json) == 1


def test_dead_letter_is_named_by_number_or_by_consumer_and_position(cli: Cli, conn: Connection) -> None:
    assert cli("dead-letter", "redrive", "77").code == 3
    assert cli("dead-letter", "show", "77").code == 3
    assert cli("dead-letter", "edit", "77", "1").code == 3
    for name in ("orders", "orders/billing/x", "a/b/c/d", "/billing"):
        assert cli("dead-letter", "redrive", name).code == 2
    assert cli("dead-letter", "edit", "orders/billing/1", "1").code == 3
    assert cli("dead-letter", "discard", "1", "--yes").code == 3
    assert cli("dead-letter", "discard", "1", "orders/billing", "--yes").code == 3
    assert cli("dead-letter", "show", "orders/billing").code == 2
    assert cli("dead-letter", "discard", "orders/billing/1", "--yes").code == 3
    assert cli("dead-letter", "show", "orders/billing/1").code == 3
