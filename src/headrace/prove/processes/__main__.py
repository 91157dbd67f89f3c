"""A process of the workload: `python -m headrace.prove.processes ROLE CONFIG`."""

from __future__ import annotations

import logging
import os
import sys
import threading
import time

import msgspec

from headrace.prove.processes.config import ProcessConfig
from headrace.prove.processes.node import run_node
from headrace.prove.processes.pipeline import run_pipeline
from headrace.prove.processes.producer import run_producer
from headrace.prove.processes.reader import run_reader
from headrace.prove.processes.sharded_producer import run_sharded_producer
from headrace.prove.processes.sink import run_sink


def publish(config: ProcessConfig) -> None:
    (run_sharded_producer if config.shards else run_producer)(config)


ROLES = {"producer": publish, "reader": run_reader, "sink": run_sink, "node": run_node, "pipeline": run_pipeline}


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
    ROLES[sys.argv[1]](msgspec.json.decode(sys.argv[2], type=ProcessConfig))
