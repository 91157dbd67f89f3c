"""Start-up: `import headrace` and help load almost nothing. Counted by modules, since time depends on the machine."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

import headrace
from headrace.cli.program import HELP_LINES, command_names, load_command

HEAVY = {"pyspark", "pyarrow", "pandas", "numba", "lark", "psycopg", "psycopg_pool", "structlog", "tenacity", "yaml", "asyncio"}
MODULES_OF_IMPORT = 40
"""`import headrace` loads this many modules at most, beside those that Python loads itself."""
MODULES_OF_HELP = 400
REPORT = "import json, sys; sys.stderr.write(json.dumps(sorted(sys.modules)))"


def loaded(code: str) -> set[str]:
    """The modules that a fresh Python has loaded after some code, beside those it loads itself."""
    report = f"import atexit\natexit.register(lambda: exec({REPORT!r}))\n"
    runs = [
        subprocess.run([sys.executable, "-c", report + text], capture_output=True, text=True, check=True) for text in (code, "")
    ]
    first, second = (set(json.loads(run.stderr.splitlines()[-1])) for run in runs)
    return first - second


def call(*words: str) -> str:
    return f"import sys; sys.argv = ['headrace', *{words!r}]; from headrace.cli import main; main()"


def test_import_loads_no_room() -> None:
    modules = loaded("import headrace")
    assert {name for name in modules if name.startswith("headrace")} == {"headrace"}
    assert len(modules) <= MODULES_OF_IMPORT


@pytest.mark.parametrize("words", [["--help"], ["topic", "--help"], ["ecl", "--help"], ["pipeline", "--help"], ["--version"]])
def test_help_loads_no_command_and_nothing_heavy(words: list[str]) -> None:
    modules = loaded(call(*words))
    assert HEAVY & modules == set()
    own = {name for name in modules if name.startswith("headrace")}
    assert own == {f"headrace{name}" for name in ("", ".cli", ".cli.program")}
    assert len(modules) <= MODULES_OF_HELP


def test_a_command_loads_only_its_own_module() -> None:
    modules = loaded(call("topic", "create", "--help"))
    assert {"pyspark", "lark", "pandas", "headrace.cli.rule", "headrace.demo", "headrace.prove"} & modules == set()
    assert "headrace.cli.topic" in modules


def test_help_table_equals_the_real_commands() -> None:
    """`python docs/generate.py` writes the table; a stale one would show commands that do not exist."""
    real = {}
    for name in command_names():
        command = load_command(name)
        assert (command.name, len(name.split())) == (name, 1)
        real[name] = command
        real |= {f"{name} {child}": subcommand for child, subcommand in getattr(command, "commands", {}).items()}
    lines = {words: " ".join(str(command.help).split("\n\n")[0].split()) for words, command in real.items()}
    assert lines == HELP_LINES, "run: python docs/generate.py"


def test_every_public_name_can_be_imported_and_is_listed() -> None:
    assert [name for name in headrace.__all__ if not hasattr(headrace, name)] == []
    assert set(headrace.__all__) <= set(dir(headrace))
    assert not hasattr(headrace, "no_such_name")
