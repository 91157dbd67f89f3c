"""The program: version, help, usage, errors, exit codes."""

from __future__ import annotations

import subprocess
import sys

import psycopg
import pytest

from headrace.cli.program import HELP_LINES
from headrace.core import HeadraceError
from headrace.db import Target
from tests.builders import topic
from tests.cli.conftest import Cli, call

pytestmark = pytest.mark.lane("pg18")

COMMANDS = [words for words in HELP_LINES if not any(other.startswith(f"{words} ") for other in HELP_LINES)]


def test_every_command_has_help_and_json() -> None:
    assert len(COMMANDS) > 80
    answers = {words: call(*words.split(), "--help") for words in COMMANDS}
    assert [words for words, answer in answers.items() if answer.code != 0 or "--json" not in answer.out] == []


def test_help_of_a_group_lists_its_commands() -> None:
    answer = call("topic", "--help")
    assert answer.code == 0
    assert all(name in answer.out for name in ("create", "alter", "drop-expired"))


def test_program_prints_its_version() -> None:
    assert call("--version").out.startswith("headrace 0.")


@pytest.mark.parametrize(("words", "suggestion"), [(["topix"], "'topic'"), (["topic", "crate"], "'create'")])
def test_wrong_name_of_a_command_gets_a_suggestion(words: list[str], suggestion: str) -> None:
    answer = call(*words)
    assert answer.code == 2
    assert suggestion in answer.err


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
        (["topic", "alter", "orders", "--partitions", "1"], 4, "TooFewPartitions"),
        (["topic", "create", "Not A Name"], 5, "Invalid"),
        (["topic", "create", "other", "--retention", "soon"], 5, "Invalid"),
        (["topic", "create", "other", "--namespace", "nowhere"], 3, "NotFound"),
        (["publish", "orders", "placed", "{"], 5, "InvalidPayload"),
        (["publish", "orders", "not  a type", "1"], 5, "InvalidEventType"),
        (["publish", "nowhere", "placed", "1"], 3, "UnknownTopic"),
        (["tail", "orders", "--from", "4711", "--no-follow"], 5, "PositionOutOfRange"),
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


def test_error_is_one_paragraph_on_stderr(cli: Cli) -> None:
    answer = cli("topic", "show", "nowhere")
    assert answer.err.startswith('UnknownTopic: there is no topic "nowhere"')
    assert "create it" in answer.err
    assert "Traceback" not in answer.err


def test_unreachable_database_exits_with_1() -> None:
    answer = call("topic", "list", "--dsn", "postgresql://nobody@127.0.0.1:1/none", "--json")
    assert answer.code == 1
    assert answer.error["error"] == "DatabaseUnavailable"


def test_invalid_address_exits_with_5_and_hides_the_password() -> None:
    answer = call("topic", "list", "--dsn", "host=x password=secret no_such=1")
    assert answer.code == 5
    assert "secret" not in answer.err


@pytest.mark.parametrize("words", [["topic", "list"], ["publish", "orders", "placed", "1"], ["consumer", "lag"], ["node", "run"]])
def test_command_on_unmigrated_database_says_what_to_run(empty: Target, words: list[str]) -> None:
    answer = call(*words, "--dsn", empty.dsn)
    assert answer.code == 1
    assert answer.err.splitlines()[-1].rstrip().endswith("run: headrace migrate"), answer.err


def test_every_error_has_a_documented_exit_code() -> None:
    def tree(root: type[HeadraceError]) -> list[type[HeadraceError]]:
        return [root, *(error for child in root.__subclasses__() for error in tree(child))]

    assert {error.exit_code for error in tree(HeadraceError)} == {1, 3, 4, 5, 6}


def test_shell_completion_knows_the_commands() -> None:
    done = subprocess.run(
        [sys.executable, "-c", "from headrace.cli import main; main()"],
        env={"_HEADRACE_COMPLETE": "complete_bash", "COMP_WORDS": "headrace top", "COMP_CWORD": "1"}
        | {"PYTHONPATH": ":".join(sys.path), "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout.split() == ["topic"], done.stderr
