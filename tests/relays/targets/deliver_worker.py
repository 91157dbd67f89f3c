"""Delivers messages to a target in batches and prints the last position of each confirmed batch. A test kills it."""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any

from headrace.relays.targets import open_target
from tests.relays.targets.builders import RELAY, build_messages, deliver_all


async def main() -> None:
    description: dict[str, Any] = json.loads(sys.stdin.readline())
    work = description["work"]
    target = open_target(description["kind"], RELAY, description["options"], description["secrets"])
    messages = build_messages(work["topic"], work["first"], work["last"])
    batch: int = work["batch"]

    def report(number: int) -> None:
        sys.stdout.write(f"{messages[min(number * batch, len(messages)) - 1].position}\n")
        sys.stdout.flush()

    await target.open()
    await deliver_all(target, messages, batch=batch, after_batch=report)
    await target.close()


if __name__ == "__main__":
    asyncio.run(main())
