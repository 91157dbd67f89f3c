"""CPU per event of every step on an event's way, as a multiple of a bare INSERT or COPY measured in the same round.

`python -m bench guard` compares with the multiples in results/guard.json, and exits with 1 if one has risen by more than 15 %;
`--record` writes them. CPU time and not the clock: it counts what this process and its backends have used, whatever else runs on
the machine; a busy machine makes every step dearer, the yardstick too, but not all by the same factor. One figure is the median
over the rounds; a figure that is too high is measured again, up to twice, and only a real rise stays too high."""

from __future__ import annotations

import json
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from bench import correlate, rules
from bench.drain import SEND
from bench.lab import Lab, settle, surroundings
from bench.pgbench import PAYLOAD
from bench.publish import BARE_TABLE
from bench.result import RESULTS
from headrace import Batch, Headrace
from headrace.actions import Action, ActionWorker, LeaseExtender, Queue, build_worker_pools
from headrace.consume import ConsumerRunner
from headrace.core import LoggedEvent
from headrace.correlators import ActionOutput, Correlator, CorrelatorEngine, WatchedCorrelator, create_correlator
from headrace.db import AsyncConnection, Connection, Pool, StopSignal, Subscription, Target, connect, create_pool
from headrace.log.topics import sequence
from headrace.node import Identity, run_loop
from headrace.rules import RuleEngine, WatchedTopic

RISE_MAX = 0.15
AGAIN = 2
RULES = 100
FILE = "guard.json"
INSERT = "insert into bare (topic_id, type, payload) values (1, 'account.created', %s::jsonb)"
PUBLISH = "select headrace.publish('bench', 'account.created', %s::jsonb)"
YARDSTICKS = {
    "publish": "insert",
    "sequence": "copy",
    "consume": "copy",
    "match": "copy",
    "correlate": "copy",
    "action": "copy",
}


@dataclass(frozen=True)
class Plan:
    rounds: int
    events: int
    """Per round and step; a tenth of it where every event is a statement."""


FULL = Plan(rounds=7, events=5_000)
QUICK = Plan(rounds=1, events=500)


def run(lab: Lab, *, quick: bool, record: bool = False, folder: Path = RESULTS) -> None:
    plan = QUICK if quick else FULL
    facts = surroundings(lab)
    ratios = _ratios(lab, plan)
    figures = {step: median(values) for step, values in ratios.items()}
    file = folder / FILE
    if record:
        content = {"surroundings": facts, "ratios": figures, "rounds": ratios}
        file.write_text(json.dumps(content, indent=2) + "\n")
    recorded = json.loads(file.read_text())["ratios"]
    for _ in range(AGAIN):
        if risen := _risen(figures, recorded):
            again = _ratios(lab, plan)
            figures |= {step: min(figures[step], median(again[step])) for step in risen}
    risen = _risen(figures, recorded)
    for step, figure in figures.items():
        mark = f"  ROSE BY MORE THAN {RISE_MAX:.0%}" if step in risen else ""
        print(f"{step:10} {figure:6.2f} × {YARDSTICKS[step]:6}  recorded {recorded[step]:6.2f}{mark}")
    if risen:
        raise SystemExit(
            f"CPU per event has risen: {', '.join(risen)}. Find the cause (git bisect run python -m bench guard), or, if the price is "
            "wanted, record the new figures with python -m bench guard --record."
        )


def _risen(figures: Mapping[str, float], recorded: Mapping[str, float]) -> list[str]:
    return [step for step in figures if figures[step] > (1 + RISE_MAX) * recorded[step]]


def _ratios(lab: Lab, plan: Plan) -> dict[str, list[float]]:
    with lab.database("guard", partitions=10) as target:
        return run_loop(_measure(target, plan))


class Steps:
    """Every step on one database; each knows how to prepare its events and how to handle them."""

    def __init__(self, conn: Connection, pool: Pool, plan: Plan) -> None:
        self.conn = conn
        self.plan = plan
        self._pool = pool
        self._watched: tuple[WatchedTopic, WatchedCorrelator]
        stop, log, definitions = StopSignal(), Subscription("headrace_log"), Subscription("headrace_rule")
        app = Headrace()
        app.consumer("bench", name="events", batch=Batch(max=100))(_take_events)
        app.handler("nothing")(_take_action)
        self.consumer = ConsumerRunner(app.consumers[0], pool, log, stop)
        self.rules = RuleEngine(pool, definitions, log, stop)
        self.correlators = CorrelatorEngine(pool, definitions, log, stop)
        queue = Queue(pool, namespace=None, node_id=Identity().node_id)
        [workers] = build_worker_pools(app.action_handlers.values())
        self.worker = ActionWorker(workers, queue, pool, LeaseExtender(queue), Subscription("headrace_action"), stop)

    async def prepare(self) -> None:
        conn = self.conn
        conn.execute(BARE_TABLE)
        conn.execute("update headrace_internal.namespace set unknown_names = 'allow'")
        conn.execute(rules.WRITE_RULES, {"rules": RULES})
        alarm = {"alarm": ActionOutput(action="ALARM")}
        pattern = Correlator(name="logins", topic="bench", key="key", pattern=correlate.PATTERN, outputs=alarm)
        create_correlator(conn, pattern)
        while await self.rules.compile_once():
            pass
        await self.correlators.compile_once()
        await self.consumer.register()
        self._watched = ((await self.rules.watched())[0], (await self.correlators.watched())[0])

    async def insert(self) -> int:
        events = self.plan.events // 10
        with self.conn.transaction():
            for _ in range(events):
                self.conn.execute(INSERT, (PAYLOAD,), prepare=True)
        return events

    async def copy(self) -> int:
        with self.conn.cursor().copy("copy bare (topic_id, type, payload) from stdin") as copy:
            for _ in range(self.plan.events):
                copy.write_row((1, "account.created", PAYLOAD))
        return self.plan.events

    async def publish(self) -> int:
        events = self.plan.events // 10
        with self.conn.transaction():
            for _ in range(events):
                self.conn.execute(PUBLISH, (PAYLOAD,), prepare=True)
        return events

    def fill(self) -> None:
        """Half of the events are for the rules, half for the correlator."""
        half = self.plan.events // 2
        self.conn.execute(rules.PUBLISH, {"rules": RULES, "events": half})
        self.conn.execute(correlate.PUBLISH, {"keys": 1_000, "events": half})

    async def sequence(self) -> int:
        return sum(topic.events for topic in sequence(self.conn, batch=1_000))

    async def consume(self) -> int:
        return await self.consumer.handle_once()

    async def match(self) -> int:
        fired = await self.rules.fire_once(self._watched[0])
        return fired.events if fired else 0

    async def correlate(self) -> int:
        done = await self.correlators.step_once(self._watched[1])
        return done.events if done else 0

    def send(self) -> None:
        self.conn.execute("truncate pgmq.q_hr_default")
        self.conn.execute(SEND, (self.plan.events // 2,))

    async def action(self) -> int:
        before = self.worker.handled
        await self.worker.handle_once()
        return self.worker.handled - before


async def _measure(target: Target, plan: Plan) -> dict[str, list[float]]:
    ratios: dict[str, list[float]] = {step: [] for step in YARDSTICKS}
    pool = create_pool(target, size=1)
    await pool.open()
    try:
        with connect(target) as conn:
            steps = Steps(conn, pool, plan)
            await steps.prepare()
            for number in range(plan.rounds + 1):
                costs = await _round(steps, await _pids(pool, conn))
                if number:  # The first round warms caches and plans.
                    for step, yardstick in YARDSTICKS.items():
                        ratios[step].append(costs[step] / costs[yardstick])
    finally:
        await pool.close()
    return ratios


async def _pids(pool: Pool, conn: Connection) -> list[int]:
    async with pool.connection() as own:
        return [conn.info.backend_pid, own.info.backend_pid]


async def _round(steps: Steps, pids: list[int]) -> dict[str, float]:
    """The CPU microseconds per event of every step, the yardsticks before and after them."""
    settle(steps.conn)
    costs: dict[str, list[float]] = {}

    async def measure(name: str, step: Callable[[], Awaitable[int]], *, repeat: bool = False) -> None:
        before, events = _cpu_us(pids), 0
        while done := await step():
            events += done
            if not repeat:
                break
        costs.setdefault(name, []).append((_cpu_us(pids) - before) / max(events, 1))

    for yardstick in ("insert", "copy"):
        await measure(yardstick, getattr(steps, yardstick))
    await measure("publish", steps.publish)
    while await steps.sequence():
        pass
    steps.fill()
    for name in ("sequence", "consume", "match", "correlate"):
        await measure(name, getattr(steps, name), repeat=True)
    steps.send()
    await measure("action", steps.action, repeat=True)
    for yardstick in ("insert", "copy"):
        await measure(yardstick, getattr(steps, yardstick))
    steps.conn.execute("truncate bare")
    return {name: sum(values) / len(values) for name, values in costs.items()}


def _cpu_us(pids: list[int]) -> float:
    """CPU time of this process and of some backends so far. The scheduler counts in nanoseconds, /proc/<pid>/stat in hundredths."""
    backends = sum(int(Path(f"/proc/{pid}/schedstat").read_text().split()[0]) for pid in pids)
    return 1e6 * time.process_time() + backends / 1_000


async def _take_events(events: Sequence[LoggedEvent], tx: AsyncConnection) -> None:
    """Does nothing with events that are decoded already."""


async def _take_action(action: Action, tx: AsyncConnection) -> None:
    """Does nothing."""
