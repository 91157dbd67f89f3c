"""A replay publishes stored events again, in order, marked, and nothing twice."""

from __future__ import annotations

import json
import time
from pathlib import Path
from uuid import uuid4

import pytest

from headrace.db import Connection, Target
from headrace.log.archive import REPLAY_HEADER, RowFilter, find_stored_range, replay
from headrace.log.topics import create_topic, read_log
from tests.builders import drain
from tests.cli.conftest import Cli, call
from tests.log.archive.builders import archive_orders, drop, three_days

pytestmark = pytest.mark.lane("pg18")


@pytest.fixture
def three(conn: Connection, database: Target, tmp_path: Path) -> Connection:
    """Positions 1 to 40, of which 1 to 30 are in the archive only; and an empty topic `again`."""
    three_days(conn)
    archive_orders(conn, database, tmp_path / "archive", days=6)
    drop(conn, days=6)
    create_topic(conn, "again")
    return conn


PAYLOADS = """select payload::text, key, type, emitted_at, producer from headrace.log
    where topic_id = headrace.topic_id(%s) and position >= %s order by position"""


def test_replay_keeps_order_payload_key_and_time(three: Connection) -> None:
    steps = list(replay(three, find_stored_range(three, "orders"), into="again", name=uuid4()))
    assert (steps[-1].events, steps[-1].position) == (40, 40)
    drain(three)
    again = read_log(three, "again")
    assert [event.headers[REPLAY_HEADER] for event in again] == [f"orders/{n}" for n in range(1, 41)]
    assert [event.payload["n"] for event in again] == list(range(1, 41))
    assert again[6].headers["h"] == 7
    assert three.execute(PAYLOADS, ("again", 31)).fetchall() == three.execute(PAYLOADS, ("orders", 31)).fetchall()
    assert not {event.id for event in again} & {event.id for event in read_log(three, "orders")}


def test_interrupted_replay_continues_under_its_name(three: Connection) -> None:
    name = uuid4()
    span = find_stored_range(three, "orders", start="6", end="36")
    next(iter(replay(three, span, into="again", name=name)))
    list(replay(three, span, into="again", name=name))
    drain(three)
    assert [event.payload["n"] for event in read_log(three, "again")] == list(range(6, 36))
    list(replay(three, span, into="again", name=uuid4()))
    assert drain(three) == 30


def test_replay_with_the_same_ids_skips_what_the_topic_has(three: Connection) -> None:
    list(replay(three, find_stored_range(three, "orders"), into="orders", name=uuid4(), same_ids=True))
    # What only the archive has is new to the log.
    assert drain(three) == 30
    assert [event.headers[REPLAY_HEADER] for event in read_log(three, "orders", after=40)] == [
        f"orders/{n}" for n in range(1, 31)
    ]


def test_rate_and_filters_hold(three: Connection) -> None:
    started_at = time.monotonic()
    rows = RowFilter(types=("paid",), keys=("k1", "k2"))
    list(replay(three, find_stored_range(three, "orders"), into="again", name=uuid4(), rows=rows, rate=20))
    drain(three)
    numbers = [event.payload["n"] for event in read_log(three, "again")]
    assert numbers == [n for n in range(1, 41) if n % 3 == 0 and n % 5 in (1, 2)]
    assert time.monotonic() - started_at > (len(numbers) - 2) / 20


def test_command_previews_then_replays(three: Connection, cli: Cli) -> None:
    words = ("replay", "orders", "--into", "again", "--from", "10", "--to", "33", "--json")
    assert cli(*words, "--dry-run").json == {
        "events": 23,
        "ranges": [{"shard": "main", "from": 10, "to": 33, "events": 23}],
    }
    assert drain(three) == 0
    answer = cli(*words, "--yes")
    assert (answer.code, answer.json["events"]) == (0, 23)
    assert drain(three) == 23
    assert cli(*words, "--yes", "--name", answer.json["name"]).code == 0
    assert drain(three) == 0
    assert cli(*words).code == 2
    assert "would be published" in cli("replay", "orders", "--type", "paid", "--dry-run").out


def test_positions_of_several_shards_are_rejected(database: Target) -> None:
    two = f"a={database.dsn} b={database.dsn}"
    assert call("replay", "orders", "--from", "3", "--dsn", two).code == 2


def test_archive_commands(conn: Connection, database: Target, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    three_days(conn)
    monkeypatch.setenv("PGOPTIONS", "-c headrace.clock_shift=6days")

    def cli(*words: str) -> object:
        return call(*words, "--dsn", database.dsn)

    assert cli("archive", "run", "orders").code == 2
    (preview,) = cli("archive", "run", "orders", "--dry-run", "--json").json
    assert (preview["events"], "files" in preview) == (30, False)
    assert cli("topic", "alter", "orders", "--retention", "1 day", "--archive").code == 0
    assert "the archive" in cli("topic", "maintain").out
    answer = cli("archive", "orders", "--folder", str(tmp_path))
    assert (answer.code, "30" in answer.out) == (0, True), answer.err
    days = cli("archive", "list", "--json").json
    assert [day["events"] for day in days] == [10, 20]
    assert "orders" in cli("archive", "list", "orders").out
    assert cli("archive", "verify").out.startswith("2 of 2 files are as recorded: 30 events")
    (tmp_path / days[0]["file"]).unlink()
    broken = cli("archive", "verify", "--json")
    assert (broken.code, [bool(one["problem"]) for one in json.loads(broken.out)]) == (6, [True, False])
    assert cli("archive", "run", "orders", "--json").json[0]["events"] == 0
