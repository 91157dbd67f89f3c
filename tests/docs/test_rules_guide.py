"""The guide about rules runs as it is written."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from headrace.db import Connection, Target

from .guide import DOCS, run_guide


@pytest.mark.lane("pg18")
async def test_rules_guide_runs(database: Target, conn: Connection, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(DOCS.parent)
    assert (await run_guide("rules", database, conn))["blocks_run"] == 4


def test_rules_guide_shows_the_file_it_loads() -> None:
    shown = re.search(r"^```yaml\n(.*?)^```$", (DOCS / "rules.md").read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    assert shown is not None
    assert shown[1] == Path(DOCS / "rules.yaml").read_text(encoding="utf-8")
