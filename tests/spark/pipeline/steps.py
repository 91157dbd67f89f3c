"""Steps that the tests of pipelines share."""

from __future__ import annotations

import random
from collections.abc import Iterator
from datetime import timedelta
from uuid import UUID

from psycopg.types.json import Jsonb

from headrace.correlators import ActionOutput, Correlator, EventOutput, create_correlator
from headrace.db import Connection, Target
from headrace.spark.pipeline import TopicPipeline
from tests.builders import drain, shift_clock
from tests.rules.steps import write

from .conftest import database_engine

RULES = {
    "big": "(object -> 'n')::int > 60",
    "odd": "(object -> 'n')::int % 2 = 1 and object ->> 'color' = 'red'",
    "late": "emitted_at < '2026-01-01T00:00:30Z'",
    "never": "object ->> 'nothing' = 'here'",
}
ALARM = {"alarm": ActionOutput(action="ALARM")}
SEEN = {"seen": EventOutput(event="seen", topic="derived")}
CORRELATORS = (
    Correlator(name="pairs", topic="cars", key="key", outputs=ALARM, evidence_max=2,
        pattern="repeat {push(alarm) {do {sequential {NEW_CAR, SOLD}} unless {STOLEN}}}"),
    Correlator(name="slow", topic="cars", key="object ->> 'color'", outputs=SEEN,
        pattern="repeat {sequential {SOLD, push(seen) {after 20 s}}}"),
    Correlator(name="all", topic="cars", outputs=SEEN, forget_after=timedelta(days=1),
        pattern="repeat {push(seen) {sequential {STOLEN, SOLD}}}"),
)  # fmt: skip
TYPES = ("NEW_CAR", "NEW_CAR", "SOLD", "STOLEN", "WASHED")


def write_all(conn: Connection) -> None:
    for name, condition in RULES.items():
        write(conn, name, condition, action=name)
    for correlator in CORRELATORS:
        create_correlator(conn, correlator)


async def compile_everything(target: Target) -> None:
    async with database_engine(target) as (rules, correlators):
        while await rules.compile_once() or await correlators.compile_once():
            pass


def append_events(conn: Connection, count: int, *, seed: int, ago_s: int = 3600) -> None:
    """Appends random events to the log in a few transactions up to a minute apart, the first `ago_s` seconds ago."""
    chance = random.Random(seed)
    at = ago_s
    # No event is older than its topic.
    conn.execute(
        "update headrace_internal.topic set created_at = least(created_at, headrace.clock() - make_interval(secs => %s))",
        (ago_s + 60,),
    )
    while count > 0:
        part = min(count, chance.randint(1, max(2, count // 6)))
        with conn.transaction():
            for _ in range(part):
                key = chance.choice([None, *(f"k{n}" for n in range(5))])
                payload = {"n": chance.randint(0, 100), "color": chance.choice(["red", "blue"])}
                parameters = (chance.choice(TYPES), Jsonb(payload), key, UUID(int=chance.getrandbits(128)), chance.randint(0, 60))
                conn.execute(
                    """select headrace.publish('cars', %s, %s, p_key => %s, p_event_id => %s,
                           p_emitted_at => '2026-01-01Z'::timestamptz + %s * interval '1 second')""",
                    parameters,
                )
        shift_clock(conn, f"-{at} seconds")
        drain(conn)
        count, at = count - part, at - chance.randint(1, 60)
    shift_clock(conn, "0")


async def run_database(target: Target, *, limit: int | None = None, batches: int = 1_000_000) -> None:
    """Runs the database's engine, at most `batches` batches of each consumer."""
    async with database_engine(target) as (rules, correlators):
        while await rules.compile_once() or await correlators.compile_once():
            pass
        for watched in await rules.watched():
            left = batches
            while left and await rules.fire_once(watched):
                left -= 1
        for watched in await correlators.watched():
            left = batches
            while left and (await correlators.step_once(watched, limit=limit) or await correlators.tick_once(watched)):
                left -= 1


def run_spark(pipeline: TopicPipeline, *, batches: int = 1_000_000) -> int:
    """Runs the pipeline until nothing is left, or `batches` batches are done; returns their number."""
    done = 0
    while done < batches and (pipeline.step() or pipeline.tick()):
        done += 1
    return done


_RESULTS = {
    "firings": """select rule_version_id, position, event_id, action, action_id from headrace.firing where position is not null
        order by firing_id""",
    "actions of rules": """select action -> 'id', action -> 'action', action -> 'payload', action -> 'key',
        action -> 'event_type', action -> 'cause' -> 'rule', action -> 'cause' -> 'position', delay_s from public.sent
        where action -> 'cause' ->> 'kind' = 'rule' order by n""",
    "actions of correlators": """select action -> 'id', action -> 'action', action -> 'payload', action -> 'key', delay_s
        from public.sent where action -> 'cause' ->> 'kind' = 'correlator' order by action -> 'cause' ->> 'correlator', n""",
    "correlations": """select version_id, key, position, event_id, token, output_at, place, evidence, evidence_total, becomes,
        name, output_id from headrace.correlation order by version_id, correlation_id""",
    "instances": """select correlator_id, key, units, deadlines, deadline, evidence, evidence_total
        from headrace.correlator_instance order by correlator_id, key""",
    # seen_at is written with other changes only, so it depends on batches; it is always written if keys are forgotten.
    "lives": """select i.correlator_id, i.key, i.started_at, case when v.forget_after is not null then i.seen_at end
        from headrace.correlator_instance i join headrace.correlator_table t using (correlator_id)
        join headrace.correlator_version v using (version_id) where not t.simple or v.forget_after is not null
        order by i.correlator_id, i.key""",
    "derived": """select event_id, type, key, payload, emitted_at from headrace.outbox order by event_id""",
    "cursors": """select c.consumer, u.position, u.state from headrace.cursor u join headrace.consumer c using (consumer_id)
        order by c.consumer""",
}  # fmt: skip


def read_results(conn: Connection, *, in_order: bool = True) -> dict[str, list[tuple[object, ...]]]:
    """Everything an engine writes, in its order; or sorted, if engines took turns."""
    results = {name: conn.execute(text).fetchall() for name, text in _RESULTS.items()}
    return results if in_order else {name: sorted(rows, key=repr) for name, rows in results.items()}


def differences(one: dict[str, list[tuple[object, ...]]], other: dict[str, list[tuple[object, ...]]]) -> Iterator[str]:
    for name, rows in one.items():
        if rows != other[name]:
            at = next((n for n, pair in enumerate(zip(rows, other[name], strict=False)) if pair[0] != pair[1]), None)
            yield f"{name}: {len(rows)} : {len(other[name])} rows, first difference {at}: " + (
                f"{rows[at]} : {other[name][at]}" if at is not None else ""
            )
