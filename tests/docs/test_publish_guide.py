"""The publish guide runs."""

from __future__ import annotations

import pytest

from headrace.db import Connection, Target
from tests.docs.guide import blocks, run_guide


async def test_publish_guide_runs(database: Target, conn: Connection) -> None:
    assert (await run_guide("publish", database, conn))["blocks_run"] >= 10


def test_runner_finds_the_blocks_to_run_and_their_lines() -> None:
    text = "# a\n```python run\nx = 1\n```\n```python\nnot run\n```\n```sql run\nselect 1\n```\n"
    assert [(block.language, block.text, block.line) for block in blocks(text)] == [
        ("python", "x = 1\n", 3),
        ("sql", "select 1\n", 9),
    ]


@pytest.mark.lane("pg18")
async def test_runner_fails_with_a_failing_block(
    database: Target, conn: Connection, tmp_path: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "bad.md").write_text("```sql run\nselect 1\n```\n```python run\nassert rows == [(2,)]\n```\n")
    monkeypatch.setattr("tests.docs.guide.DOCS", tmp_path)
    with pytest.raises(AssertionError):
        await run_guide("bad", database, conn)
