"""A process of the workload: `python -m headrace.prove.processes ROLE CONFIG`."""

from __future__ import annotations

import logging
import os
import sys
import threading
import time
from importlib import import_module

import msgspec

from headrace.prove.processes.config import ProcessConfig

# Each role is imported when it runs: a producer needs neither rules nor Spark.
ROLES = {
    "producer": "producer",
    "reader": "clients",
    "sink": "clients",
    "sender": "clients",
    "eraser": "clients",
    "node": "node",
    "pipeline": "node",
}
"""The module of each role."""


def run_role(role: str, config: ProcessConfig) -> None:
    module = import_module(f"headrace.prove.processes.{ROLES[role]}")
    getattr(module, f"run_{role}")(config)


def exit_with_parent() -> None:
    """Ends this process when the checker is gone, so that a killed checker leaves no process behind."""
    parent = os.getppid()

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(1)
        os._exit(1)

    threading.Thread(target=watch, name="parent", daemon=True).start()


if __name__ == "__main__":
    exit_with_parent()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    run_role(sys.argv[1], msgspec.json.decode(sys.argv[2], type=ProcessConfig))
