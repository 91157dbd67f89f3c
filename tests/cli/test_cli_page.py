"""docs/cli.md is what the program says of itself."""

from __future__ import annotations

import runpy
from pathlib import Path

DOCS = Path(__file__).parents[2] / "docs"


def test_page_is_not_stale() -> None:
    page = runpy.run_path(str(DOCS / "generate_cli.py"))["page"]
    assert (DOCS / "cli.md").read_text(encoding="utf-8") == page(), "run: python docs/generate_cli.py"


def test_page_names_every_command() -> None:
    from tests.cli.test_program import COMMANDS

    page = (DOCS / "cli.md").read_text(encoding="utf-8")
    assert [line.removeprefix("## headrace ") for line in page.splitlines() if line.startswith("## ")] == COMMANDS
