"""What tests of pipelines do and do not want to show."""

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
OUTPUT = {"alarm": ActionOutput(action="ALARM"), "seen": EventOutput(event="seen", topic="derived")}
CORRELATORS = (
    Correlator(name="pairs", topic="cars", key="key", outputs=OUTPUT, evidence_max=2,
        pattern="repeat {push(alarm) {do {sequential {NEW_CAR, SOLD}} unless {STOLEN}}}"),
    Correlator(name="slow", topic="cars", key="object ->> 'color'", outputs=OUTPUT,
        pattern="repeat {sequential {SOLD, push(seen) {after 20 s}}}"),
    Correlator(name="all", topic="cars", outputs=OUTPUT, forget_after=timedelta(days=1),
        pattern="repeat {push(seen) {sequential {STOLEN, SOLD}}}"),
)  # fmt: skip
TYPES = ("NEW_CAR", "NEW_CAR", "SOLD", "STOLEN", "WASHED")


def write_all(conn: Connection) -> None:
    for name, condition in RULES.items():
        write(conn, name, condition, action=name)
    for correlator in CORRELATORS:
        create_correlator(conn, correlator)


async def compile_everything(target: Target) -> None:
    async with database_engine(target) as (reactor, correlators):
        while await reactor.compile_once() or await correlators.compile_once():
            pass


def happen(conn: Connection, count: int, *, seed: int, ago_s: int = 3600) -> None:
    """Random events, in the log, in a few pieces with up to a minute between them, the first so many seconds ago."""
    chance = random.Random(seed)
    at = ago_s
    # A log has no time before its topic.
    conn.execute(
        "update headrace.topic set created_at = least(created_at, headrace.clock() - make_interval(secs => %s))", (ago_s + 60,)
    )
    while count > 0:
        piece = min(count, chance.randint(1, max(2, count // 6)))
        with conn.transaction():
            for _ in range(piece):
                key = chance.choice([None, *(f"k{n}" for n in range(5))])
                payload = {"n": chance.randint(0, 100), "color": chance.choice(["red", "blue"])}
                given = (chance.choice(TYPES), Jsonb(payload), key, UUID(int=chance.getrandbits(128)), chance.randint(0, 60))
                conn.execute(
                    """select headrace.publish('cars', %s, %s, p_key => %s, p_event_id => %s,
                           p_emitted_at => '2026-01-01Z'::timestamptz + %s * interval '1 second')""",
                    given,
                )
        shift_clock(conn, f"-{at} seconds")
        drain(conn)
        count, at = count - piece, at - chance.randint(1, 60)
    shift_clock(conn, "0")


async def run_database(target: Target, *, most: int | None = None, batches: int = 1_000_000) -> None:
    """The database's engine, at most so many batches of each consumer."""
    async with database_engine(target) as (reactor, correlators):
        while await reactor.compile_once() or await correlators.compile_once():
            pass
        for watched in await reactor.watched():
            left = batches
            while left and await reactor.react_once(watched):
                left -= 1
        for one in await correlators.watched():
            left = batches
            while left and (await correlators.step_once(one, most=most) or await correlators.tick_once(one)):
                left -= 1


def run_spark(one: TopicPipeline, *, batches: int = 1_000_000) -> int:
    """The pipeline, until nothing is left or so many batches are done."""
    done = 0
    while done < batches and (one.step() or one.tick()):
        done += 1
    return done


_LOOKS = {
    "firings": """select rule_version_id, position, event_id, action, action_id from headrace_internal.firing where position is not null
        order by firing_id""",
    "actions of rules": """select action -> 'id', action -> 'action', action -> 'payload', action -> 'key',
        action -> 'event_type', action -> 'cause' -> 'rule', action -> 'cause' -> 'position', delay_s from public.sent
        where action -> 'cause' ->> 'kind' = 'rule' order by n""",
    "actions of correlators": """select action -> 'id', action -> 'action', action -> 'payload', action -> 'key', delay_s
        from public.sent where action -> 'cause' ->> 'kind' = 'correlator' order by action -> 'cause' ->> 'correlator', n""",
    "correlations": """select version_id, key, position, event_id, token, output_at, place, evidence, evidence_total, becomes,
        name, output_id from headrace_internal.correlation order by version_id, correlation_id""",
    "instances": """select correlator_id, key, units, deadlines, deadline, evidence, evidence_total
        from headrace_internal.correlator_instance order by correlator_id, key""",
    # When a key was last seen is written with its other changes only, and so by batches; but always where keys are forgotten.
    "lives": """select i.correlator_id, i.key, i.started_at, case when v.forget_after is not null then i.seen_at end
        from headrace_internal.correlator_instance i join headrace_internal.correlator_table t using (correlator_id)
        join headrace_internal.correlator_version v using (version_id) where not t.simple or v.forget_after is not null
        order by i.correlator_id, i.key""",
    "derived": """select event_id, type, key, payload, emitted_at from headrace_internal.outbox order by event_id""",
    "cursors": """select c.consumer, u.position, u.state from headrace_internal.cursor u join headrace_internal.consumer c using (consumer_id)
        order by c.consumer""",
}  # fmt: skip


def looks(conn: Connection, *, in_order: bool = True) -> dict[str, list[tuple[object, ...]]]:
    """Everything an engine leaves behind, in the order it was made; or as sets, where engines took turns."""
    found = {name: conn.execute(text).fetchall() for name, text in _LOOKS.items()}
    return found if in_order else {name: sorted(rows, key=repr) for name, rows in found.items()}


def differing(one: dict[str, list[tuple[object, ...]]], other: dict[str, list[tuple[object, ...]]]) -> Iterator[str]:
    for name, rows in one.items():
        if rows != other[name]:
            at = next((n for n, pair in enumerate(zip(rows, other[name], strict=False)) if pair[0] != pair[1]), None)
            yield f"{name}: {len(rows)} : {len(other[name])} rows, first difference {at}: " + (
                f"{rows[at]} : {other[name][at]}" if at is not None else ""
            )
