"""Runs pages as a reader would, in one folder and on one database: the tutorial page after page, and how-to guides.

    ```python title="shop.py"   is written to the file; append="shop.py" adds to its end
    ```sh run                   runs in the folder; lines that only call headrace run in this process
    ```sh node                  starts the node again, as the reader does in the second terminal
    ```sh console               what the page does in the console; the test does it there
    ```python run               runs with the names of the blocks before it
    ```text                     after a sh block: its output has these lines, in this order; … stands for anything

A command whose output is checked is repeated until it fits: a node works beside it."""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tests.cli.conftest import call
from tests.docs.guide import DOCS

_fence = re.compile(r"^```(\w+)(?: ([^\n]*))?\n(.*?)^```$", re.MULTILINE | re.DOTALL)
FITS_S = 120.0


@dataclass
class Reader:
    """Somebody who does what the pages say."""

    folder: Path
    environment: Mapping[str, str]
    do_in_console: Callable[[], None] = lambda: None
    names: dict[str, object] = field(default_factory=dict)
    node: subprocess.Popen[bytes] | None = None
    variables: dict[str, str] = field(default_factory=dict)
    last_block: str = ""
    output: str = ""

    def read(self, page: str) -> int:
        """Does everything on a page of docs; returns how many blocks there were."""
        text = (DOCS / f"{page}.md").read_text(encoding="utf-8")
        fences = list(_fence.finditer(text))
        for fence in fences:
            place = f"{page}.md:{text.count(chr(10), 0, fence.start()) + 1}"
            self._do(fence[1], fence[2] or "", fence[3], place)
        return len(fences)

    def _do(self, language: str, info: str, text: str, place: str) -> None:
        if name := re.search(r'(title|append)="([\w.-]+)"', info):
            file = self.folder / name[2]
            file.write_text(file.read_text() + "\n\n" + text if name[1] == "append" else text)
        elif info == "node":
            self.stop_node()
            environment = {**self.environment, "PYTHONPATH": f".:{self.environment.get('PYTHONPATH', '')}"}
            with (self.folder / "node.log").open("ab") as log:
                self.node = subprocess.Popen(shlex.split(text), cwd=self.folder, env=environment, stdout=log, stderr=log)
        elif info == "console":
            self.do_in_console()
        elif language == "python" and info == "run":
            exec(compile(text, place, "exec"), self.names)
        elif language == "sh" and info == "run":
            self.last_block = text
            self.output = self._run(text, place)
        elif language == "text":
            self._check(text, place)

    def _check(self, expected: str, place: str) -> None:
        deadline = time.monotonic() + FITS_S
        while problem := missing_line(expected, self.output):
            log = self.folder / "node.log"
            assert time.monotonic() < deadline, f"{place}: no line {problem!r} in:\n{self.output}\n{log.read_text()[-2000:]}"
            # Only the last command: those before it changed something.
            self.output = self._run(self.last_block.strip().splitlines()[-1], place)

    def _run(self, text: str, place: str) -> str:
        lines = [line for line in text.splitlines() if line.strip()]
        if all(re.fullmatch(r"headrace [^|>$]*|headrace trace \$\w+", line) for line in lines):
            return "".join(self._call(line, place) for line in lines)
        script = f"set -euo pipefail -o allexport\n{text}\nenv -0 > {self.folder / 'variables'}"
        environment = {**self.environment, **self.variables}
        ended = subprocess.run(
            ["bash", "-c", script], cwd=self.folder, env=environment, capture_output=True, text=True, timeout=120, check=False
        )
        assert ended.returncode == 0, f"{place}: {ended.stdout}{ended.stderr}"
        pairs = (entry.partition("=") for entry in (self.folder / "variables").read_text().split("\0") if entry)
        self.variables |= {name: value for name, _, value in pairs if name.isupper() and name not in self.environment}
        return ended.stdout

    def _call(self, line: str, place: str) -> str:
        words = [self.variables.get(word[1:], word) if word.startswith("$") else word for word in shlex.split(line)[1:]]
        answer = call(*words)
        assert answer.code == 0, f"{place}: {line}: {answer.out}{answer.err}"
        return answer.out

    def stop_node(self) -> None:
        if self.node is not None:
            self.node.send_signal(signal.SIGTERM)
            self.node.wait(60)
            self.node = None


def missing_line(expected: str, output: str) -> str | None:
    """The first expected line that no further line of the output has."""
    lines: Iterator[str] = (" ".join(line.split()) for line in output.splitlines())
    for wanted in expected.splitlines():
        pattern = ".*".join(re.escape(" ".join(part.split())) for part in wanted.split("…"))
        if not any(re.search(pattern, line) for line in lines):
            return wanted
    return None


def environment_for(dsn: str) -> dict[str, str]:
    """The variables of the reader's terminal."""
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    return {**os.environ, "PATH": path, "HEADRACE_DSN": dsn}
