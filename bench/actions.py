"""Actions through the queue with an empty handler, compared with pgmq's bare read + delete, procrastinate and pgqueuer, and with
many delayed actions in the queue.

Bare is the least one can do with pgmq: read and delete a batch in one transaction, over and over, on one connection. It is
compared with a node of one worker, which leases first and commits handling and ack after that, and so writes twice as often."""

from __future__ import annotations

import time
from dataclasses import dataclass

from bench.child import child
from bench.drain import SEND
from bench.lab import Lab, settle, surroundings
from bench.result import Figure, Round, Side, ratio, report
from headrace.actions.handlers import BATCH_MAX
from headrace.db import Connection, Target, connect


@dataclass(frozen=True)
class Plan:
    rounds: int
    actions: int
    jobs: dict[str, int]
    """Fewer for the slower queues."""
    waiting: int
    """Actions that are not due: every other one was sent with a delay, the rest failed and are to be tried again."""


FULL = Plan(rounds=3, actions=100_000, jobs={"procrastinate": 1_000, "pgqueuer": 40_000}, waiting=200_000)
QUICK = Plan(rounds=3, actions=10_000, jobs={"procrastinate": 300, "pgqueuer": 5_000}, waiting=50_000)


WAIT = """
    insert into pgmq.q_hr_default (read_ct, vt, message)
    select n %% 2, headrace.clock() + interval '1 hour', jsonb_build_object(
        'id', headrace.uuid_v7(), 'action', 'nothing', 'payload', jsonb_build_object('number', n), 'priority', 0)
    from generate_series(1, %s) n"""


def run(lab: Lab, *, quick: bool) -> None:
    plan = QUICK if quick else FULL
    facts = surroundings(lab)
    names = ("bare", "headrace-1", "headrace", "waiting", "procrastinate", "pgqueuer")
    sides = {name: Side(name, []) for name in names}
    with lab.database("actions", partitions=1) as target, connect(target) as conn:
        conn.execute("select pgmq.create('bare')")
        for _ in range(plan.rounds):
            for name, side in sides.items():
                conn.execute("vacuum")
                settle(conn)
                if name == "bare":
                    side.rounds.append(_bare(lab, conn, plan.actions))
                elif name == "waiting":
                    side.rounds.append(_beside_waiting(lab, conn, target, plan))
                else:
                    side.rounds.append(_drained(lab, target, name, plan))
    better = max(sides["procrastinate"], sides["pgqueuer"], key=lambda side: side.rate)
    figures: list[Figure] = [
        ratio(f"one worker : pgmq read + delete, {BATCH_MAX} each", sides["headrace-1"], sides["bare"], 1.0),
        ratio(f"node : pgmq read + delete in one connection, {BATCH_MAX} each", sides["headrace"], sides["bare"], 1.0),
        ratio(f"node : {better.name}, the better of the two", sides["headrace"], better, 3.5),
        ratio(f"node beside {plan.waiting} actions that wait : without them", sides["waiting"], sides["headrace"], 0.9),
    ]
    report("actions", facts, figures, dict(sides))


def _drained(lab: Lab, target: Target, name: str, plan: Plan) -> Round:
    """One queue's worker empties its queue."""
    jobs = plan.jobs.get(name, plan.actions)
    with child("bench.drain", name, target.dsn, str(jobs)) as worker:
        cpu = lab.cpu_s()
        answer = worker.ask()
    return Round(jobs / answer["seconds"], 1e6 * (lab.cpu_s() - cpu + answer["cpu_s"]) / jobs)


def _beside_waiting(lab: Lab, conn: Connection, target: Target, plan: Plan) -> Round:
    conn.execute(WAIT, (plan.waiting,))
    conn.execute("vacuum analyze pgmq.q_hr_default")
    settle(conn)
    drained = _drained(lab, target, "headrace", plan)
    conn.execute("truncate pgmq.q_hr_default")
    return drained


def _bare(lab: Lab, conn: Connection, actions: int) -> Round:
    conn.execute(SEND, (actions,))
    conn.execute("insert into pgmq.q_bare (vt, message) select vt, message from pgmq.q_hr_default order by msg_id")
    conn.execute("truncate pgmq.q_hr_default")
    settle(conn)
    start, cpu, own = time.perf_counter(), lab.cpu_s(), time.process_time()
    while _read_and_delete(conn):
        pass
    took = time.perf_counter() - start
    return Round(actions / took, 1e6 * (lab.cpu_s() - cpu + time.process_time() - own) / actions)


def _read_and_delete(conn: Connection) -> int:
    with conn.transaction():
        rows = conn.execute("select msg_id, message from pgmq.read('bare', 30, %s)", (BATCH_MAX,)).fetchall()
        if rows:
            conn.execute("select pgmq.delete('bare', %s::bigint[])", ([row[0] for row in rows],))
    return len(rows)
