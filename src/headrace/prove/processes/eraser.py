"""Eraser: publishes the events of one person after the other, and erases each while nodes are at work on it.

It connects to the server itself, as readers do. Where it does not know whether a transaction was committed, it erases the person
once more at its end, when nothing of that transaction can be on its way any more."""

from __future__ import annotations

import random
import time

import psycopg
from psycopg.types.json import Jsonb

from headrace.core import HeadraceError
from headrace.db import Target
from headrace.log.archive import erase_key
from headrace.prove.processes.config import MAIN, RETRY_S, ProcessConfig, StopSignal, open_connection
from headrace.prove.workload import PEOPLE, PERSONAL

EVENTS_MAX = 6
PAUSES_S = (0.0, 0.0, 0.02, 0.1, 0.4)
"""From the last event of a person to the erasure: events are in the outbox, just sequenced, or with rules and correlators."""
EVERY_S = 1.0
FAILURES = (psycopg.Error, HeadraceError, OSError)
PUBLISH = "select headrace.publish(%s, 'joined', %s::jsonb, p_key => %s, p_producer => 'eraser')"


def run_eraser(config: ProcessConfig) -> None:
    """Erases person after person until SIGTERM."""
    stop = StopSignal()
    draw = random.Random(f"{config.seed}:{config.name}:{config.number}")
    target = Target(MAIN, config.dsn)
    uncertain: list[str] = []
    while not stop.is_set:
        person = f"{draw.getrandbits(64):016x}{PERSONAL}"
        try:
            _publish(config.dsn, person, draw.randint(1, EVENTS_MAX))
        except FAILURES:
            uncertain.append(person)
        time.sleep(draw.choice(PAUSES_S))
        _erase(target, person)
        time.sleep(EVERY_S * draw.uniform(0.5, 1.5))
    for person in uncertain:
        _erase(target, person)


def _publish(dsn: str, person: str, events: int) -> None:
    """One transaction per event, so that some are sequenced and others not."""
    with open_connection(dsn) as conn:
        conn.autocommit = True
        for number in range(events):
            conn.execute(PUBLISH, (PEOPLE, Jsonb({"email": person, "n": number}), person))


def _erase(target: Target, person: str) -> None:
    """Erases until it is known to be done."""
    while True:
        try:
            erase_key(target, PEOPLE, person, replace_key=True, vacuum=False)
            return
        except FAILURES:
            time.sleep(RETRY_S)
