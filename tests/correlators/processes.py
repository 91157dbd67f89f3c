"""A node to be killed: `python -m tests.correlators.processes DSN`. It sequences, correlates and fires timers."""

from __future__ import annotations

import asyncio
import sys

from headrace.db import Target
from headrace.node import Headrace, Node

if __name__ == "__main__":
    asyncio.run(Node(Headrace(), [Target("main", sys.argv[1])]).run())
