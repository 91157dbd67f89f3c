"""Child processes of a benchmark: a node, EventSQL's loops, a producer. Each runs in its own interpreter.

A child says `ready`, then answers every line on its standard input with a line of JSON, and ends with its standard input."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any


class Child:
    """A running child, seen from the benchmark."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process
        self.pid = process.pid

    def ask(self) -> dict[str, Any]:
        """The child's counters right now."""
        assert self._process.stdin and self._process.stdout
        self._process.stdin.write("report\n")
        self._process.stdin.flush()
        answer: dict[str, Any] = json.loads(self._process.stdout.readline())
        return answer


@contextmanager
def child(module: str, *arguments: str) -> Iterator[Child]:
    """Starts `python -m module` and waits until it is ready; ends it."""
    command = [sys.executable, "-m", module, *arguments]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        if process.stdout.readline() != "ready\n":
            raise RuntimeError(f"{module} did not start")
        yield Child(process)
        # Leaving the block closes the standard input, which ends the child, and waits for it.


async def answer(report: Callable[[], dict[str, Any]]) -> None:
    """The child's side: answers until the standard input ends."""
    loop = asyncio.get_running_loop()
    lines = asyncio.StreamReader()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(lines), sys.stdin)
    print("ready", flush=True)
    while await lines.readline():
        print(json.dumps(report()), flush=True)
