"""Every example of the guides says where its connection comes from: a reader copies one block, not the page."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
GUIDES = [*sorted((ROOT / "docs").glob("*.md")), ROOT / "README.md"]
PROVIDED = {"conn", "dsn", "target", "spark"}
_python = re.compile(r"^```python(?: run)?\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def unexplained(text: str) -> Iterator[tuple[int, str]]:
    """The line of each block, and a name that it uses without assigning it, or saying in a comment where it comes from."""
    for block in _python.finditer(text):
        nodes = list(ast.walk(compile(block[1], "", "exec", ast.PyCF_ONLY_AST | ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)))
        names = [node for node in nodes if isinstance(node, ast.Name)]
        assigned = {name.id for name in names if isinstance(name.ctx, ast.Store)}
        assigned |= {
            argument.arg
            for node in nodes
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
            for argument in node.args.args
        }
        for name in sorted({name.id for name in names} & PROVIDED - assigned):
            if not re.search(rf"^# {name} = ", block[1], re.MULTILINE):
                yield text.count("\n", 0, block.start()) + 1, name


@pytest.mark.parametrize("guide", GUIDES, ids=lambda path: path.stem)
def test_every_example_says_where_its_connection_comes_from(guide: Path) -> None:
    assert list(unexplained(guide.read_text(encoding="utf-8"))) == []


def test_checker_finds_a_connection_from_nowhere() -> None:
    assert list(unexplained("x\n```python\nconn.execute('select 1')\n```\n")) == [(2, "conn")]
