"""A process of the workload: `python -m headrace.prove.process ROLE SETTINGS`."""

from __future__ import annotations

import logging
import os
import sys
import threading
import time

import msgspec

from headrace.prove.actor import Orders
from headrace.prove.app import run_node
from headrace.prove.pipeline_process import run_pipeline
from headrace.prove.producer import produce
from headrace.prove.reader import follow
from headrace.prove.sink import sink
from headrace.prove.spread import spread


def publish(orders: Orders) -> None:
    (spread if orders.shards else produce)(orders)


ROLES = {"producer": publish, "reader": follow, "sink": sink, "node": run_node, "pipeline": run_pipeline}


def end_with_parent() -> None:
    """Ends this process when the checker is gone, so that a killed checker leaves nobody at work."""
    parent = os.getppid()

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(1)
        os._exit(1)

    threading.Thread(target=watch, name="parent", daemon=True).start()


if __name__ == "__main__":
    end_with_parent()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    ROLES[sys.argv[1]](msgspec.json.decode(sys.argv[2], type=Orders))
