"""A new field of a rule: three files of a copy of the package, and every layer has it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import headrace
from headrace.db import Target

pytestmark = pytest.mark.lane("pg18")

PACKAGE = Path(headrace.__file__).parent
FIELD = "    note: Annotated[str | None, Field('What the rule is for.', unset='nothing')] = None\n"
EDITS = {
    # The declaration, the column, and the views that show it and let users write it.
    "rules/rule.py": (("    active: Annotated[bool, Field(", FIELD + "    active: Annotated[bool, Field("),),
    "rules/sql/tables.sql": (("    active     boolean     not null default true,\n", "    active     boolean     not null default true,\n    note       text,\n"),),
    "rules/sql/views.sql": (("r.timing,", "r.timing, r.note,"), ("v.timing, v.active,", "v.timing, v.note, v.active,")),
}  # fmt: skip
PROGRAM = """
import sys
from dataclasses import replace
from headrace.db import connect, migrate, parse_targets
from headrace.definitions import apply, load_definitions, plan
from headrace.log.topics import create_topic
from headrace.rules import RULES, Rule

[target] = parse_targets(sys.argv[1])
with connect(target) as conn:
    migrate(conn)
    create_topic(conn, "cars")
    RULES.create(conn, Rule(name="r", topic="cars", event_type="E", action="A", note="first"))
    RULES.alter(conn, replace(RULES.get(conn, "r").rule, note="second"))
    assert [version.note for version in RULES.versions(conn, "r")] == ["first", "second"]
    changes = plan(conn, sys.argv[2], kinds=(RULES,))
    assert [change.differences for change in changes.select("alter")] == [("note",)]
    apply(conn, changes)
    assert conn.execute("select note from headrace.rule_state").fetchone() == ("third",)
    conn.execute("update headrace.rule set note = 'fourth'")
    assert RULES.get(conn, "r").rule.note == "fourth"
"""


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """A copy of the package in which a rule has a note."""
    copy = tmp_path / "src/headrace"
    shutil.copytree(PACKAGE, copy, ignore=shutil.ignore_patterns("__pycache__", "static"))
    for name, replacements in EDITS.items():
        text = (copy / name).read_text()
        for before, after in replacements:
            assert before in text, f"{name} has no {before!r}"
            text = text.replace(before, after)
        (copy / name).write_text(text)
    return copy.parent


def test_new_field_of_a_rule_touches_three_source_files(package: Path, empty: Target, tmp_path: Path) -> None:
    assert len(EDITS) <= 3
    file = tmp_path / "rules.yaml"
    file.write_text("rules:\n- {name: r, topic: cars, event_type: E, action: A, note: third}\n")
    dsn = empty.dsn

    def run(*words: str) -> str:
        answer = subprocess.run(
            [sys.executable, *words], env={**os.environ, "PYTHONPATH": str(package)}, capture_output=True, text=True, timeout=120
        )
        assert answer.returncode == 0, answer.stderr
        return answer.stdout

    run("-c", PROGRAM, dsn, str(file))
    assert "--note" in run("-m", "headrace", "rule", "create", "--help")
    assert "note: fourth → fifth" in run("-m", "headrace", "rule", "alter", "r", "--note", "fifth", "--dsn", dsn)
    assert "fifth" in run("-m", "headrace", "rule", "show", "r", "--dsn", dsn)
