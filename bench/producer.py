"""A steady producer in a process of its own: `python -m bench.producer <dsn> <rate> <connections>`.

Every connection publishes on its own beat, one event per transaction, and says how late its beats were."""

from __future__ import annotations

import asyncio
import sys
import time
from typing import Any

import psycopg

from bench.child import answer
from bench.pgbench import PAYLOAD

late_ms: list[float] = []
published = 0


async def beat(dsn: str, every_s: float, offset_s: float) -> None:
    global published
    async with await psycopg.AsyncConnection.connect(dsn, autocommit=True, prepare_threshold=0) as conn:
        due = time.monotonic() + offset_s
        while True:
            await asyncio.sleep(max(0.0, due - time.monotonic()))
            late_ms.append(1000 * (time.monotonic() - due))
            await conn.execute(
                "select headrace.publish('bench', 'account.created', %s::jsonb, %s)", (PAYLOAD, f"k{published % 997}")
            )
            published += 1
            due += every_s


async def main(dsn: str, rate: str, connections: str) -> None:
    count = int(connections)
    every_s = count / float(rate)
    beats = [asyncio.create_task(beat(dsn, every_s, every_s * n / count)) for n in range(count)]

    def report() -> dict[str, Any]:
        counts = {"published": published, "late_ms": sorted(late_ms)}
        late_ms.clear()
        return counts

    await answer(report)
    for task in beats:
        task.cancel()
    await asyncio.gather(*beats, return_exceptions=True)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
