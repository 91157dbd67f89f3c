"""Real ASGI servers: uvicorn in a process of its own, in a project folder."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from headrace.db.server import free_port

ROOT = Path(__file__).parents[2]
START_S = 60


def write_project(folder: Path, **files: str) -> None:
    for name, text in files.items():
        (folder / f"{name}.py").write_text(textwrap.dedent(text))


def start_uvicorn(folder: Path, application: str, port: int, dsn: str, *words: str) -> subprocess.Popen[str]:
    environment = {**os.environ, "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{folder}", "DATABASE_URL": dsn}
    environment.pop("HEADRACE_DSN", None)
    command = [sys.executable, "-m", "uvicorn", application, "--port", str(port), "--no-access-log", *words]
    return subprocess.Popen(command, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def request(port: int, path: str, *, method: str = "GET") -> str:
    with urllib.request.urlopen(urllib.request.Request(f"http://127.0.0.1:{port}{path}", method=method), timeout=20) as response:
        return str(response.read().decode())


@contextmanager
def uvicorn(folder: Path, application: str, dsn: str) -> Iterator[tuple[int, subprocess.Popen[str]]]:
    """A server that answers; stopped at the end with SIGTERM, and killed if that does not help."""
    port = free_port()
    process = start_uvicorn(folder, application, port, dsn)
    try:
        deadline = time.monotonic() + START_S
        while True:
            try:
                request(port, "/health")
                break
            except (urllib.error.URLError, ConnectionError):
                assert process.poll() is None, process.communicate()[0]
                assert time.monotonic() < deadline, "uvicorn did not start"
                time.sleep(0.05)
        yield port, process
    finally:
        if process.poll() is None:
            process.kill()
        process.communicate()


def stop(process: subprocess.Popen[str]) -> tuple[int, str]:
    """Stops the server in order; returns exit code and output."""
    process.send_signal(signal.SIGTERM)
    output, _ = process.communicate(timeout=60)
    return process.returncode, output
