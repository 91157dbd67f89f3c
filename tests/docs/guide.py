"""Runs the guides in docs/: every block marked ```python run, ```sql run or ```sh run, in order, in one namespace and one database.

A guide finds `dsn` and `conn` (psycopg, autocommit) ready. A python block may await. The rows of the last sql block are `rows`. A sh
block runs in bash with the variables of those before it, and with the texts in `names` whose names are upper case; a command that fails
fails the guide, and what it printed is `output`. An error points to the line of the guide."""

from __future__ import annotations

import ast
import asyncio
import inspect
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from headrace.db import Connection, Target

DOCS = Path(__file__).parents[2] / "docs"
_fence = re.compile(r"^```(python|sql|sh) run\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Block:
    """A piece of a guide that runs, and the line it starts at."""

    language: str
    text: str
    line: int


def blocks(text: str) -> Iterator[Block]:
    for fence in _fence.finditer(text):
        yield Block(fence[1], fence[2], text.count("\n", 0, fence.start(2)) + 1)


async def run_guide(
    name: str, database: Target, conn: Connection, names: Mapping[str, object] | None = None
) -> dict[str, object]:
    """Runs docs/<name>.md with `names` and returns those it has made; `blocks_run` tells how many blocks there were."""
    path = DOCS / f"{name}.md"
    namespace: dict[str, object] = {"dsn": database.dsn, "conn": conn, "rows": [], "blocks_run": 0, **(names or {})}
    for block in blocks(path.read_text(encoding="utf-8")):
        if block.language == "sh":
            namespace["output"] = await asyncio.to_thread(_run_sh, block, path, namespace)
        elif block.language == "sql":
            cursor = conn.execute(block.text)
            while cursor.nextset():
                pass
            namespace["rows"] = cursor.fetchall() if cursor.description else []
        else:
            await _run_python(block, path, namespace)
        namespace["blocks_run"] = int(str(namespace["blocks_run"])) + 1
    return namespace


def _run_sh(block: Block, path: Path, namespace: dict[str, object]) -> str:
    variables = namespace.setdefault("variables", {})
    assert isinstance(variables, dict)
    texts = {name: value for name, value in namespace.items() if name.isupper() and isinstance(value, str)}
    places = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    environment = {**os.environ, **texts, **variables, "PATH": places, "HEADRACE_DSN": str(namespace["dsn"])}
    with tempfile.NamedTemporaryFile() as after:
        script = f"set -euo pipefail -o allexport\n{block.text}\nenv -0 > {after.name}"
        done = subprocess.run(["bash", "-c", script], env=environment, capture_output=True, text=True, timeout=120, check=False)
        assert done.returncode == 0, f"{path}:{block.line}: exit code {done.returncode}: {done.stdout}{done.stderr}"
        pairs = (entry.partition("=") for entry in Path(after.name).read_text().split("\0") if entry)
        variables.update({name: value for name, _, value in pairs if name.isupper() and name not in os.environ})
    return done.stdout


async def _run_python(block: Block, path: Path, namespace: dict[str, object]) -> None:
    code = compile("\n" * (block.line - 1) + block.text, path, "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True)
    result = eval(code, namespace)
    if inspect.iscoroutine(result):
        await result
