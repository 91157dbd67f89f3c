"""What publishers write reaches the operator's terminal as text only: no control character of theirs, no forged line."""

from __future__ import annotations

import io
import json
import logging
import re
from collections.abc import Iterator
from uuid import UUID

import pytest
from psycopg.types.json import Jsonb
from rich.table import Table
from rich.text import Text

from headrace.cli.node import log_to_stderr
from headrace.cli.output import SafeConsole, note, print_unexpected, table
from headrace.core import safe_json, safe_line
from headrace.correlators import ActionOutput, Correlator, CorrelatorEngine, create_correlator
from headrace.db import Connection
from tests.builders import drain, topic
from tests.cli.conftest import Cli
from tests.correlators.steps import settle_correlators
from tests.rules.conftest import correlators

__all__ = ["correlators"]
pytestmark = pytest.mark.lane("pg18")

HOSTILE = "k\x1b]0;owned\x07\x1b[2J\x9b31m\r\nFORGED line\u202egnp.exe\u2066\u200b\x7f\x00".replace("\x00", "\x01") + "\U000e0041"
UNSAFE = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\U000e0000-\U000e007f]")


@pytest.fixture
async def event_id(conn: Connection, correlators: CorrelatorEngine) -> UUID:
    """A hostile event, with a dead letter and an output of a correlator that carry its texts on."""
    topic(conn, "orders")
    create_correlator(
        conn,
        Correlator(name="c", topic="orders", key="key", pattern="push(x) {placed}", outputs={"x": ActionOutput(action="MAIL")}),
    )
    statement = "select headrace.publish('orders', 'placed', %s, p_key => %s, p_headers => %s, p_producer => %s)"
    payload = Jsonb({HOSTILE: [HOSTILE]})
    row = conn.execute(statement, (payload, HOSTILE, Jsonb({"h": HOSTILE}), HOSTILE)).fetchone()
    assert row is not None
    drain(conn)
    await settle_correlators(correlators, conn)
    ids = [row[0] for row in conn.execute("select msg_id from pgmq.read('hr_default', 30, 10)")]
    conn.execute("select headrace.bury_actions(%s, 'failed', %s, %s, null, null)", (ids, f"Error: {HOSTILE}", HOSTILE))
    return UUID(str(row[0]))


COMMANDS = [
    "tail orders --no-follow", "tail orders --no-follow --cloudevent", "tail orders --no-follow --json", "trace EVENT",
    "trace EVENT --json", "dead-letter list", "dead-letter list --json", "dead-letter groups", "dead-letter show 1",
    "dead-letter show 1 --json", "correlator list", "correlator show c", "correlator outputs c", "correlator outputs c --json",
    "correlator state c --key KEY", "topic list", "topic show orders", "consumer list", "consumer lag", "action queue", "action list",
    "rule list", "rule versions", "event-type list", "node list", "schedule list", "doctor", "archive list orders",
    "tail KEY", "topic show KEY", "dead-letter show KEY", "condition explain KEY", "consumer drop orders KEY",
]  # fmt: skip


def test_no_command_prints_a_control_character(cli: Cli, event_id: UUID) -> None:
    shown = 0
    for words in COMMANDS:
        answer = cli(*(word.replace("EVENT", str(event_id)).replace("KEY", HOSTILE) for word in words.split()))
        for text in (answer.out, answer.err):
            assert not UNSAFE.search(text), (words, text)
        lines = answer.out.splitlines()
        assert not any(line.startswith("FORGED") for line in lines), (words, lines)
        shown += "owned" in answer.out
    assert shown >= 10


def test_json_is_exact(cli: Cli, event_id: UUID) -> None:
    (event,) = cli("tail", "orders", "--no-follow", "--json").lines
    assert (event["key"], event["producer"], event["payload"]) == (HOSTILE, HOSTILE, {HOSTILE: [HOSTILE]})
    (cloudevent,) = cli("tail", "orders", "--no-follow", "--cloudevent").lines
    assert cloudevent["data"] == {HOSTILE: [HOSTILE]}


def test_terminal_gets_our_styles_and_none_of_theirs() -> None:
    stream = io.StringIO()
    console = SafeConsole(file=stream, force_terminal=True, width=300)
    console.print(table(["key"], [{"key": HOSTILE}]))
    console.print(Text(HOSTILE, style="bold"))
    raw = Table(title=HOSTILE)
    raw.add_column(HOSTILE)
    raw.add_row(HOSTILE)
    console.print(raw)
    with console.status(HOSTILE):
        pass
    printed = stream.getvalue()
    assert "\x1b[1m" in printed
    assert "owned" in printed and "\x1b]" not in printed and "\x1b[2J" not in printed and "\x07" not in printed
    assert not re.search("[\x7f-\x9f\u202e\u2066]", printed)


@pytest.fixture
def logging_restored() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)


@pytest.mark.parametrize("as_json", [False, True])
@pytest.mark.usefixtures("logging_restored")
def test_logs_are_neutral_and_show_no_password(capsys: pytest.CaptureFixture[str], as_json: bool) -> None:
    log_to_stderr(as_json=as_json, level=logging.INFO)
    dsn = "postgresql://me:s3cret@host/db"
    try:
        raise ValueError(f"{HOSTILE} {dsn}")
    except ValueError:
        logging.getLogger("test").exception("handler of %s failed on %s", HOSTILE, dsn)
    text = capsys.readouterr().err
    assert not UNSAFE.search(text)
    assert "s3cret" not in text and "me:***@host" in text and "owned" in text
    assert not any(line.startswith("FORGED") for line in text.splitlines())
    assert not as_json or all(json.loads(line) for line in text.splitlines())


def test_unexpected_errors_and_notes_are_neutral(capsys: pytest.CaptureFixture[str]) -> None:
    note(HOSTILE)
    error = RuntimeError(f"{HOSTILE} password='s3 cret' postgresql://me:s3cret@host/db")
    print_unexpected(RuntimeError, error, None)
    printed = capsys.readouterr().err
    assert not UNSAFE.search(printed) and "s3" not in printed


def test_usual_text_is_unchanged() -> None:
    text = "Grüße, 你好, שלום, 👩‍👩‍👧 \\x1b"
    assert safe_line(text) == text and safe_json(f'"{text}"') == f'"{text}"'
