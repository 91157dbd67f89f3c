"""The program as a whole: version, help, usage, errors, exit codes."""

from __future__ import annotations

import subprocess
import sys

import psycopg
import pytest

from headrace.core import HeadraceError
from headrace.db import Target
from tests.builders import topic
from tests.cli.conftest import Cli, call

pytestmark = pytest.mark.lane("pg18")

COMMANDS = [
    "migrate", "publish", "tail", "trace", "replay", "backtest", "doctor", "demo", "prove",
    "topic create", "topic alter", "topic engine", "topic list", "topic show", "topic drop", "topic maintain",
    "topic drop-expired",
    "consumer list", "consumer lag", "consumer create", "consumer seek", "consumer resume", "consumer drop",
    "rule list", "rule show", "rule create", "rule alter", "rule drop", "rule history", "rule plan", "rule apply",
 "correlator list",
 "correlator show",
 "correlator create",
 "correlator alter",
 "correlator drop",
 "correlator outputs",
 "correlator state",
    "condition test", "condition explain",
    "ecl test", "ecl check", "ecl compare", "ecl deps", "ecl draw", "ecl run",
    "event-type list", "event-type create", "event-type drop",
    "action list", "action create", "action drop", "action send", "action queue",
    "dead-letter list", "dead-letter groups", "dead-letter show", "dead-letter edit", "dead-letter redrive",
    "dead-letter discard", "dead-letter purge",
    "schedule list", "schedule show", "schedule create", "schedule alter", "schedule pause", "schedule resume", "schedule drop",
    "schedule run", "schedule next", "schedule history",
    "namespace list", "namespace create", "namespace alter", "namespace grants", "namespace grant", "namespace revoke",
    "namespace drop",
    "archive run", "archive list", "archive verify",
    "node list", "node run", "pipeline run", "pipeline list", "server start", "server stop", "server status",
]  # fmt: skip


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help_and_json(command: str) -> None:
    answer = call(*command.split(), "--help")
    assert answer.code == 0
    assert "--json" in answer.out


def test_version_is_told() -> None:
    assert call("--version").out.startswith("headrace 0.")


def test_module_runs_as_program() -> None:
    done = subprocess.run([sys.executable, "-m", "headrace", "--version"], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("headrace ")


@pytest.mark.parametrize(
    "words", [["no-such"], ["topic", "create"], ["topic", "list", "--no-such"], ["publish", "t", "--header", "x"]]
)
def test_wrong_usage_exits_with_2(words: list[str]) -> None:
    answer = call(*words)
    assert answer.code == 2
    assert answer.out == ""


@pytest.mark.parametrize(
    ("words", "code", "error"),
    [
        (["topic", "show", "nowhere"], 3, "UnknownTopic"),
        (["consumer", "resume", "orders", "nobody"], 3, "UnknownConsumer"),
        (["topic", "create", "orders"], 4, "TopicExists"),
        (["topic", "alter", "orders", "--partitions", "1"], 4, "FewerPartitions"),
        (["topic", "create", "Not A Name"], 5, "Invalid"),
        (["topic", "create", "other", "--retention", "soon"], 5, "Invalid"),
        (["topic", "create", "other", "--namespace", "nowhere"], 3, "NotFound"),
        (["publish", "orders", "placed", "{"], 5, "BadPayload"),
        (["publish", "orders", "not a type", "1"], 5, "BadType"),
        (["publish", "nowhere", "placed", "1"], 3, "UnknownTopic"),
        (["tail", "orders", "--from", "4711", "--no-follow"], 5, "OutOfLog"),
        (["consumer", "lag", "orders", "nobody"], 3, "UnknownConsumer"),
        (["consumer", "list", "nowhere"], 3, "UnknownTopic"),
        (["dead-letter", "list", "--consumer", "nowhere"], 3, "UnknownTopic"),
        (["node", "run", "no_such_module:app"], 3, "NotFound"),
        (["node", "run", "headrace.core:Event"], 5, "Invalid"),
        (["node", "run", "nonsense"], 5, "Invalid"),
    ],
)
def test_errors_have_their_exit_code(cli: Cli, conn: psycopg.Connection, words: list[str], code: int, error: str) -> None:
    topic(conn, partitions=2)
    answer = cli(*words, "--json")
    assert (answer.code, answer.error["error"]) == (code, error), answer.err
    assert answer.out == ""
    assert answer.error["message"]


def test_error_for_people_is_one_paragraph_on_stderr(cli: Cli) -> None:
    answer = cli("topic", "show", "nowhere")
    assert answer.err.startswith('UnknownTopic: there is no topic "nowhere"')
    assert "create it" in answer.err
    assert "Traceback" not in answer.err


def test_unreachable_database_exits_with_1() -> None:
    answer = call("topic", "list", "--dsn", "postgresql://nobody@127.0.0.1:1/none", "--json")
    assert answer.code == 1
    assert answer.error["error"] == "DatabaseUnavailable"


def test_unreadable_address_exits_with_5_and_keeps_the_password_in() -> None:
    answer = call("topic", "list", "--dsn", "host=x password=secret no_such=1")
    assert answer.code == 5
    assert "secret" not in answer.err


@pytest.mark.parametrize("words", [["topic", "list"], ["publish", "orders", "placed", "1"], ["consumer", "lag"], ["node", "run"]])
def test_unmigrated_database_gets_advice(empty: Target, words: list[str]) -> None:
    answer = call(*words, "--dsn", empty.dsn)
    assert answer.code == 1
    assert answer.err.splitlines()[-1].rstrip().endswith("run: headrace migrate"), answer.err


def test_every_error_of_ours_has_a_documented_exit_code() -> None:
    def tree(root: type[HeadraceError]) -> list[type[HeadraceError]]:
        return [root, *(found for child in root.__subclasses__() for found in tree(child))]

    assert {error.exit_code for error in tree(HeadraceError)} == {1, 3, 4, 5, 6}


def test_shell_completion_knows_the_commands() -> None:
    done = subprocess.run(
        [sys.executable, "-c", "from headrace.cli import main; main()"],
        env={"_HEADRACE_COMPLETE": "complete_bash", "COMP_WORDS": "headrace to", "COMP_CWORD": "1"}
        | {"PYTHONPATH": ":".join(sys.path), "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout.split() == ["topic"], done.stderr
