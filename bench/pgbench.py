"""pgbench: the same clients for every side, each with its own statement."""

from __future__ import annotations

import re
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from psycopg.conninfo import conninfo_to_dict

from bench.lab import Lab
from headrace.db import Target

Protocol = Literal["simple", "prepared"]

# The shape and size of the events of EventSQL's benchmark, as jsonb prints it.
PAYLOAD = (
    '{"id": "018f9c3e-7d2a-7c11-b0f4-5a1d3c9e2b77", "name": "018f9c3e-7d2a-7c11-b0f4-5a1d3c9e2b77-name", '
    '"email": "018f9c3e-7d2a-7c11-b0f4-5a1d3c9e2b77@email.example", "createdAt": "2025-06-13T17:35:07.036129442Z"}'
)
# pgbench puts variables into the text as they are (simple) or sends them as parameters (prepared).
_QUOTES = {"simple": "'", "prepared": ""}


@dataclass(frozen=True)
class Run:
    """What pgbench says: transactions per second, their average time, and the CPU time pgbench itself took."""

    tps: float
    transactions: int
    latency_ms: float
    cpu_s: float


def script(statement: str, protocol: Protocol) -> str:
    """A pgbench script: {key} is a random key, {payload} the event's JSON, {partition} one of ten."""
    quote = _QUOTES[protocol]
    names = {"key": f"{quote}:key{quote}", "payload": f"{quote}:payload{quote}", "partition": ":partition"}
    return f"\\set key random(1, 100000)\n\\set partition random(0, 9)\n{statement.format(**names)};\n"


def pgbench(
    lab: Lab, target: Target, statement: str, *, protocol: Protocol, clients: int, seconds: float, rate: float | None = None
) -> Run:
    """Runs a statement, one per transaction, in a closed loop; with `rate` at most this many per second over all clients."""
    with tempfile.NamedTemporaryFile("w", suffix=".sql") as file:
        file.write(script(statement, protocol))
        file.flush()
        process = start(lab, target, Path(file.name), protocol=protocol, clients=clients, seconds=seconds, rate=rate)
        return finish(process)


def start(
    lab: Lab, target: Target, file: Path, *, protocol: Protocol, clients: int, seconds: float, rate: float | None = None
) -> subprocess.Popen[str]:
    address = conninfo_to_dict(target.dsn)
    command = [str(lab.server.program("pgbench")), "--no-vacuum", f"--file={file}", f"--protocol={protocol}"]
    command += [f"--client={clients}", f"--jobs={min(clients, 2)}", f"--time={seconds:.0f}", f"--define=payload={PAYLOAD}"]
    command += [f"--host={address['host']}", f"--port={address['port']}", f"--username={address['user']}"]
    command += [f"--rate={rate:.0f}"] if rate else []
    # The time at the end makes it tell its own CPU time.
    timed = ["/bin/bash", "-c", 'TIMEFORMAT="cpu %U %S"; time "$@"', "pgbench", *command, str(address["dbname"])]
    return subprocess.Popen(timed, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def finish(process: subprocess.Popen[str]) -> Run:
    out, err = process.communicate()
    if process.returncode:
        raise RuntimeError(f"pgbench failed: {err.strip() or out.strip()}")
    cpu = re.search(r"cpu ([\d.]+) ([\d.]+)", err)
    assert cpu is not None
    return Run(
        tps=_number(r"tps = ([\d.]+)", out),
        transactions=int(_number(r"actually processed: (\d+)", out)),
        latency_ms=_number(r"latency average = ([\d.]+)", out),
        cpu_s=float(cpu[1]) + float(cpu[2]),
    )


def _number(pattern: str, text: str) -> float:
    match = re.search(pattern, text)
    if match is None:
        raise RuntimeError(f"pgbench said nothing like {pattern!r}: {text}")
    return float(match[1])
