"""Erasure under load: people whose data is erased while nodes work on it."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from contextlib import contextmanager

from psycopg.types.json import Jsonb

from headrace.core import ArchiveBusy
from headrace.db import query
from headrace.log.archive import Erasure, erase_key
from headrace.prove.environment import Environment
from headrace.prove.faults.load import PUBLISH
from headrace.prove.workload import PEOPLE, PERSONAL

PERSONS, EVENTS = 3, 7
BUSY_S = 0.05
REACHED_S = 60.0
"""How long to wait at most until a correlator has seen the first person."""


@contextmanager
def erase_people(environment: Environment, draw: random.Random) -> Iterator[str]:
    """Publishes events of some people and erases each of them: some events wait in the outbox, others are in the log, and rules and
    the correlator are at work on them."""
    people = [f"{draw.getrandbits(64):016x}{PERSONAL}" for _ in range(PERSONS)]
    with environment.connect() as conn:
        for number in range(EVENTS):
            for person in people:
                payload = Jsonb({"email": person, "n": number})
                conn.execute(PUBLISH, (PEOPLE, "joined", payload, person, None, None))
    rows = 0
    _wait_for_instance(environment, people[0])
    for person in people:
        environment.hold(draw.choice((0.0, 0.2, 2.0)))
        rows += sum(_erase(environment, person).row_counts.values())
    yield f"{rows} rows of {PERSONS} keys"


def _wait_for_instance(environment: Environment, person: str) -> None:
    """At least one person is erased of whom a correlator keeps a state."""
    until = time.monotonic() + REACHED_S
    with environment.connect() as conn:
        while conn.execute(query("prove/has_instance"), {"key": person}).fetchone() == (False,) and time.monotonic() < until:
            time.sleep(BUSY_S)


def _erase(environment: Environment, person: str) -> Erasure:
    """Waits while the eraser of the workload erases somebody else: a topic has one erasure at a time."""
    while True:
        try:
            return erase_key(environment.target, PEOPLE, person, replace_key=True, vacuum=False)
        except ArchiveBusy:
            time.sleep(BUSY_S)
