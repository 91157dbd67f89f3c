"""Commands that change something print it: before → after."""

from __future__ import annotations

import pytest

from headrace.db import Connection, Server
from tests.builders import fill, own_database, topic
from tests.cli.conftest import Cli, call

pytestmark = pytest.mark.lane("pg18")


@pytest.fixture
def shop(cli: Cli, conn: Connection) -> Cli:
    """One of everything that can be altered."""
    topic(conn, "orders")
    conn.execute("update headrace_internal.namespace set unknown_names = 'allow'")
    cli("topic", "alter", "orders", "--retention", "30 days")
    cli("rule", "create", "fast", "--topic", "orders", "--event-type", "placed", "--action", "CALL", "--condition", "true")
    cli("correlator", "create", "pair", "--topic", "orders", "--action", "x=CALL", "--action", "y=MAIL",
        "--pattern", "parallel {push(x) {a}, push(y) {b}}")  # fmt: skip
    cli("schedule", "create", "daily", "@daily", "--topic", "orders", "--type", "due")
    return cli


@pytest.mark.parametrize(
    ("words", "lines"),
    [
        (("topic", "alter", "orders", "--partitions", "4", "--retention", "forever"),
         ["partitions: 1 → 4", "retention: 30 days → forever"]),
        (("topic", "alter", "orders", "--retention", "30 days"), ["nothing differs from before"]),
        (("schedule", "alter", "daily", "--cron", "@hourly", "--payload", '{"a": 1}'),
         ["cron: @daily → @hourly", 'payload: {} → {"a":1}']),
        (("rule", "alter", "fast", "--action", "MAIL", "--priority", "3"), ["action: CALL → MAIL", "priority: 0 → 3"]),
        (("correlator", "alter", "pair", "--evidence-max", "7", "--action", "x=TEXT"),
         ["outputs: x → CALL, y → MAIL → x → TEXT, y → MAIL", "evidence max: 100 → 7"]),
        (("namespace", "alter", "default", "--unknown-names", "warn"), ["unknown names: allow → warn"]),
    ],
    ids=lambda words: " ".join(words[:3]) if isinstance(words, tuple) else "",
)  # fmt: skip
def test_change_is_printed_before_and_after(shop: Cli, words: tuple[str, ...], lines: list[str]) -> None:
    answer = shop(*words)
    assert answer.code == 0, answer.err
    assert [line.strip() for line in answer.out.splitlines()][1:] == lines


def test_json_has_both_values(shop: Cli) -> None:
    changed = shop("rule", "alter", "fast", "--priority", "3", "--json").json
    assert (changed["before"], changed["after"]) == ({"priority": 0}, {"priority": 3})


def test_new_pattern_takes_the_outputs_of_its_lost_tokens_along_and_says_so(shop: Cli) -> None:
    answer = shop("correlator", "alter", "pair", "--pattern", "push(x) {a}")
    assert "outputs: x → CALL, y → MAIL → x → CALL" in answer.out
    refused = shop("correlator", "alter", "pair", "--pattern", "push(x) {a}", "--action", "z=CALL")
    assert (refused.code, "it pushes x" in refused.err) == (5, True)


def test_seek_prints_where_each_cursor_was_and_is(cli: Cli, conn: Connection) -> None:
    topic(conn)
    fill(conn, 10)
    cli("consumer", "create", "orders", "billing")
    assert "partition 0: position 0 → 10" in cli("consumer", "seek", "orders", "billing", "latest", "--yes").err


def test_shards_that_differ_are_printed_one_by_one(server: Server) -> None:
    with (
        own_database(server, "a", template="headrace_template") as a,
        own_database(server, "b", template="headrace_template") as b,
    ):
        shards = f"a={a.dsn} b={b.dsn}"
        assert call("topic", "create", "orders", "--dsn", shards).code == 0
        assert call("topic", "alter", "orders", "--partitions", "2", "--dsn", a.dsn).code == 0
        out = call("topic", "alter", "orders", "--partitions", "4", "--dsn", shards).out
        assert "a: partitions: 2 → 4" in out and "b: partitions: 1 → 4" in out
