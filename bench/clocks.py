"""CPU time of a client and its backend, in steps fine enough for a few hundred events."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path

from bench.result import Round


@dataclass(frozen=True)
class Clocks:
    """The time, and the CPU time of this process and of a backend."""

    backend_pid: int
    wall_s: float
    client_s: float
    backend_s: float

    @classmethod
    def read(cls, backend_pid: int) -> Clocks:
        # Nanoseconds on a CPU; the times that psutil reads have steps of 10 ms.
        on_cpu_ns = int(Path(f"/proc/{backend_pid}/schedstat").read_text().split()[0])
        return cls(backend_pid, time.perf_counter(), time.process_time(), on_cpu_ns / 1e9)

    def round(self, events: int) -> Round:
        """The time this number of events has taken since then."""
        now = Clocks.read(self.backend_pid)
        client_us = 1e6 * (now.client_s - self.client_s) / events
        backend_us = 1e6 * (now.backend_s - self.backend_s) / events
        rate = events / (now.wall_s - self.wall_s)
        return Round(rate, client_us + backend_us, {"client_us": client_us, "backend_us": backend_us})
