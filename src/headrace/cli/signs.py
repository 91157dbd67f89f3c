"""The signs before a finding: ✓ fine, · to know, ! should be looked at, ✗ wrong."""

from __future__ import annotations

from rich.text import Text

from headrace.observe import Level

SIGNS: dict[Level, Text] = {
    "ok": Text("✓", style="green"),
    "info": Text("·", style="dim"),
    "warning": Text("!", style="bold yellow"),
    "problem": Text("✗", style="bold red"),
}
