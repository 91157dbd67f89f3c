"""The README's example and commands run as they stand there, from an empty folder."""

from __future__ import annotations

import re
import shlex
import subprocess
from pathlib import Path

import pytest

from headrace.db import Connection, Target
from tests.builders import wait_until
from tests.cli.conftest import call
from tests.docs.tutorial import environment_for

README = (Path(__file__).parents[2] / "README.md").read_text()


def commands(first: str) -> list[list[str]]:
    """The lines of the sh block that begins with this word, split into words."""
    [block] = [block for block in re.findall(r"```sh\n(.*?)```", README, re.DOTALL) if block.startswith(first)]
    return [shlex.split(line, comments=True) for line in block.replace("\\\n", " ").splitlines()]


@pytest.mark.lane("pg18")
def test_readme_example_runs_from_an_empty_folder(
    conn: Connection, database: Target, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (example,) = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    (tmp_path / "shop.py").write_text(example)
    environment = environment_for(database.dsn)
    monkeypatch.setenv("HEADRACE_DSN", database.dsn)
    *steps, node = commands("headrace migrate")
    for words in steps:
        if words[0] == "headrace":
            assert call(*words[1:]).code == 0
        else:
            subprocess.run(words, cwd=tmp_path, env=environment, check=True, timeout=120)
    running = subprocess.Popen(node, cwd=tmp_path, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    try:
        receipts = "select array_agg(order_id) from receipt"
        wait_until(lambda: conn.execute(receipts).fetchone() == ([7],), "the receipt is written")
        for first in ("headrace rule", "headrace correlator"):
            (words,) = commands(first)
            assert call(*words[1:]).code == 0
        valid = "select (select count(*) from headrace.rule where status = 'valid') + (select count(*) from headrace.correlator where status = 'valid')"
        wait_until(lambda: conn.execute(valid).fetchone() == (2,), "the node compiles rule and pattern")
    finally:
        running.terminate()
        output, _ = running.communicate(timeout=60)
    assert "receipt for order 7" in output


def test_readme_is_short() -> None:
    assert len(README.splitlines()) <= 150
