"""Correlators in a file: planned first, then applied, whole or not at all."""

from __future__ import annotations

import re
from datetime import timedelta
from pathlib import Path

import pytest

from headrace.core import InvalidDefinitionFile, InvalidOutputs
from headrace.correlators import CORRELATORS, Correlator, CorrelatorEngine, list_correlators, load_correlators
from headrace.db import Connection
from headrace.definitions import apply, plan
from headrace.lang.ecl import PatternError
from tests.builders import topic
from tests.correlators.steps import happen, settle_correlators

FILE = """
correlators:
  - name: pair
    topic: cars
    key: key
    pattern: repeat {push(x) {sequential {a, b}}}
    forget_after: P30D
    outputs:
      x: {action: ALARM, priority: 2}
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "correlators.yaml"
    path.write_text(FILE)
    return path


@pytest.mark.parametrize("text", ["30 days", "P30D", "4w 2 d"])
def test_duration_is_written_as_in_patterns_or_by_iso_8601(tmp_path: Path, text: str) -> None:
    path = tmp_path / "correlators.yaml"
    path.write_text(FILE.replace("P30D", text))
    assert load_correlators(path)[0].forget_after == timedelta(days=30)


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("30 moons", "unknown unit 'moons'; units are us, ms, s, min, h, d, w"),
        ("30", "30 is not a duration; write a number and a unit, such as '30 days'"),
        ("[30]", "[30] is not a duration; write a number and a unit, such as '30 days'"),
    ],
)
def test_wrong_duration_is_rejected_with_what_to_write(tmp_path: Path, text: str, error: str) -> None:
    path = tmp_path / "correlators.yaml"
    path.write_text(FILE.replace("P30D", text))
    with pytest.raises(InvalidDefinitionFile, match=re.escape(f"forget_after: {error}")):
        load_correlators(path)


@pytest.fixture
def changed(tmp_path: Path) -> Path:
    path = tmp_path / "changed.yaml"
    path.write_text(FILE.replace("priority: 2", "priority: 3"))
    return path


@pytest.mark.lane("pg18")
async def test_plan_is_applied_once_and_drops_only_its_own(
    conn: Connection, correlators: CorrelatorEngine, path: Path, changed: Path
) -> None:
    topic(conn, "cars")
    conn.execute("insert into headrace.correlator (correlator, topic, pattern) values ('by-hand', 'cars', 'a')")
    kinds = (CORRELATORS,)
    first = plan(conn, load_correlators(path), kinds=kinds)
    [created] = first.select("create")
    assert isinstance(created.after, Correlator) and created.after.forget_after == timedelta(days=30)
    apply(conn, first)
    assert plan(conn, load_correlators(path), kinds=kinds).is_empty
    happen(conn, "a:k")
    await settle_correlators(correlators, conn)
    second = plan(conn, load_correlators(changed), kinds=kinds)
    assert second.select("alter")[0].differences == ("outputs",)
    [applied] = apply(conn, second)
    assert applied.effects == {"carried": 1, "restarted": 0}
    apply(conn, plan(conn, (), kinds=kinds))
    assert [state.correlator.name for state in list_correlators(conn)] == ["by-hand"]


@pytest.mark.parametrize(
    ("wrong", "right", "error"),
    [
        ("key: key", "keys: key", InvalidDefinitionFile),
        ("correlators:", "correlator:", InvalidDefinitionFile),
        ("sequential {a, b}", "sequential {a b}", PatternError),
        ("action: ALARM", "act: ALARM", InvalidOutputs),
    ],
)
def test_bad_file_is_rejected_whole(path: Path, wrong: str, right: str, error: type[Exception]) -> None:
    path.write_text(FILE.replace(wrong, right))
    with pytest.raises(error):
        load_correlators(path)
