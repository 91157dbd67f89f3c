"""Correlators in a file: planned first, applied then, taken whole or not at all."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from headrace.core import BadOutputs, BadRuleFile
from headrace.correlators import apply_correlators, list_correlators, load_correlators, plan_correlators
from headrace.db import Connection
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


@pytest.fixture
def changed(tmp_path: Path) -> Path:
    path = tmp_path / "changed.yaml"
    path.write_text(FILE.replace("priority: 2", "priority: 3"))
    return path


@pytest.mark.lane("pg18")
async def test_plan_is_applied_once_and_drops_only_its_own(
    conn: Connection, correlators: object, path: Path, changed: Path
) -> None:
    topic(conn, "cars")
    conn.execute("insert into headrace.correlator (correlator, topic, pattern) values ('by-hand', 'cars', 'a')")
    first = plan_correlators(conn, load_correlators(path))
    assert [one.name for one in first.create] == ["pair"] and first.create[0].forget_after == timedelta(days=30)
    apply_correlators(conn, first)
    assert plan_correlators(conn, load_correlators(path)).empty
    happen(conn, "a:k")
    await settle_correlators(correlators, conn)  # type: ignore[arg-type]
    second = plan_correlators(conn, load_correlators(changed))
    assert second.change[0].differs == ("outputs",)
    told = apply_correlators(conn, second)
    assert (told["pair"].carried, told["pair"].restarted) == (1, 0)
    apply_correlators(conn, plan_correlators(conn, ()))
    assert [state.correlator.name for state in list_correlators(conn)] == ["by-hand"]


@pytest.mark.parametrize(
    ("wrong", "right", "error"),
    [
        ("key: key", "keys: key", BadRuleFile),
        ("correlators:", "correlator:", BadRuleFile),
        ("sequential {a, b}", "sequential {a b}", PatternError),
        ("action: ALARM", "act: ALARM", BadOutputs),
    ],
)
def test_wrong_file_is_refused_whole(path: Path, wrong: str, right: str, error: type[Exception]) -> None:
    path.write_text(FILE.replace(wrong, right))
    with pytest.raises(error):
        load_correlators(path)
