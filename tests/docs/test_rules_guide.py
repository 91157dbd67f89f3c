"""The guide about rules runs as it is written."""

from __future__ import annotations

import pytest

from headrace.db import Connection, Target

from .guide import DOCS, run_guide


@pytest.mark.lane("pg18")
async def test_rules_guide_runs(database: Target, conn: Connection, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(DOCS.parent)
    assert (await run_guide("rules", database, conn))["blocks_run"] == 3
