"""The guide about definition files runs as it is written."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from headrace.db import Connection, Target

from .guide import DOCS, run_guide


async def test_definitions_guide_runs(database: Target, conn: Connection, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(DOCS.parent)
    assert (await run_guide("definitions", database, conn))["blocks_run"] == 2


def test_definitions_guide_shows_the_file_it_applies() -> None:
    shown = re.search(r"^```yaml\n(.*?)^```$", (DOCS / "definitions.md").read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    assert shown is not None
    assert shown[1] == Path(DOCS / "definitions.yaml").read_text(encoding="utf-8")
