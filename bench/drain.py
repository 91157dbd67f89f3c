"""A queue's worker with an empty handler, in a process of its own: `python -m bench.drain <queue> <dsn> <jobs>`.

It fills its queue by the means of that queue and says `ready`; told to go, it works until the queue is empty and answers with the
seconds from the first call of the handler until everything is acknowledged and the worker has ended, and with its own CPU seconds
since it was told. Queues: `headrace` (as it comes), `headrace-1` (one worker), `procrastinate`, `pgqueuer`; the last with batches
of our size."""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import Callable

from headrace.actions import Action
from headrace.actions.handlers import BATCH_MAX
from headrace.db import Target, connect
from headrace.node import Headrace, Node, WorkerSettings, run_loop

SEND = """
    select count(*) from headrace.send_actions('default', (
        select array_agg(jsonb_build_object(
            'id', headrace.uuid_v7(), 'action', 'nothing', 'payload', jsonb_build_object('number', n),
            'key', null, 'priority', 0, 'namespace', 'default', 'event_type', 'bench', 'emitted_at', headrace.clock(),
            'producer', 'bench', 'scheduled_task_id', null, 'cause', '{}'::jsonb) order by n)
        from generate_series(1, %s) n))"""


class Calls:
    """Counts the handler's calls, and knows when the first was."""

    def __init__(self, jobs: int) -> None:
        self._jobs = jobs
        self._count = 0
        self.first_at = 0.0
        self.ended = asyncio.Event()

    def one(self) -> None:
        self._count += 1
        if self._count == 1:
            self.first_at = time.perf_counter()
        if self._count == self._jobs:
            self.ended.set()


async def headrace(dsn: str, jobs: int, go: Callable[[], None], *, workers: int = 4) -> Calls:
    app, calls = Headrace(), Calls(jobs)

    @app.handler("nothing")
    async def nothing(action: Action, tx: object) -> None:
        calls.one()

    with connect(Target("bench", dsn)) as conn:
        conn.execute(SEND, (jobs,))
    go()
    node = Node(app, [Target("bench", dsn)], work=WorkerSettings(workers=workers))
    running = asyncio.create_task(node.run())
    await calls.ended.wait()
    node.stop()
    await running
    return calls


async def procrastinate(dsn: str, jobs: int, go: Callable[[], None]) -> Calls:
    from procrastinate import App, PsycopgConnector

    calls = Calls(jobs)
    app = App(connector=PsycopgConnector(conninfo=dsn, min_size=4, max_size=20))

    @app.task(name="nothing", queue="bench")
    async def nothing(number: int) -> None:
        calls.one()

    async with app.open_async():
        if not await app.check_connection_async():
            await app.schema_manager.apply_schema_async()
        for start in range(0, jobs, 1000):
            await nothing.batch_defer_async(*({"number": number} for number in range(start, min(start + 1000, jobs))))
        go()
        await app.run_worker_async(wait=False, concurrency=10, delete_jobs="successful", install_signal_handlers=False)
    return calls


async def pgqueuer(dsn: str, jobs: int, go: Callable[[], None]) -> Calls:
    import asyncpg
    from pgqueuer import AsyncpgPoolDriver, PgQueuer, Queries
    from pgqueuer.types import QueueExecutionMode

    calls = Calls(jobs)
    async with asyncpg.create_pool(dsn, min_size=4, max_size=20) as pool:
        driver = AsyncpgPoolDriver(pool)
        queries = Queries(driver)
        if not await pool.fetchval("select to_regclass('pgqueuer') is not null"):
            await queries.install()
        await queries.enqueue(["nothing"] * jobs, [b"1"] * jobs, [0] * jobs)
        worker = PgQueuer(driver)

        @worker.entrypoint("nothing")
        async def nothing(job: object) -> None:
            calls.one()

        go()
        await worker.qm.run(batch_size=BATCH_MAX, mode=QueueExecutionMode.drain)
    return calls


async def drain(queue: str, dsn: str, jobs: int) -> None:
    cpu = 0.0

    def go() -> None:
        nonlocal cpu
        print("ready", flush=True)
        sys.stdin.readline()
        cpu = time.process_time()

    if queue == "headrace-1":
        calls = await headrace(dsn, jobs, go, workers=1)
    else:
        calls = await {"headrace": headrace, "procrastinate": procrastinate, "pgqueuer": pgqueuer}[queue](dsn, jobs, go)
    seconds = time.perf_counter() - calls.first_at
    print(json.dumps({"seconds": seconds, "cpu_s": time.process_time() - cpu}), flush=True)


if __name__ == "__main__":
    run_loop(drain(sys.argv[1], sys.argv[2], int(sys.argv[3])))
