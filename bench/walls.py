"""What the walls between namespaces cost, and what they hold.

Publishing as a tenant against publishing as the owner, and the rate of namespace b with and without an attack by a tenant of
namespace a. Both sides run in turns in one process; the figure is the median over pairs, so that a change of the machine's load
meets both.

The attacker sends statements as fast as it can and takes a core for itself, which no wall prevents. So the rate of b is measured in
two ways: at a steady 200 events per second, which leaves CPU for both, against no attacker; and as fast as b can, against a busy
neighbour that sends the same kinds of statements with identifiers of its own namespace."""

from __future__ import annotations

import itertools
import multiprocessing
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from psycopg.conninfo import make_conninfo

from bench.child import child
from bench.lab import Lab, surroundings
from bench.result import Figure, Round, Side, ratio, report
from headrace.db import Connection, Level, Target, connect, create_namespace, grant_namespace
from headrace.log.topics import create_topic
from headrace.prove.attacker import Identifiers, attack, known_identifiers
from headrace.rules import Rule, create_rule

PUBLISH = "select headrace.publish('orders', 'placed', to_jsonb(%s::int), p_key => %s, p_namespace => %s)"
FIRED = (
    """select count(*) from headrace_internal.firing f join headrace_internal.topic t using (topic_id) where t.namespace = 'b'"""
)
STEADY_PER_S = 200.0
LEVELS: tuple[Level, ...] = ("publish", "consume", "work", "admin")


@dataclass(frozen=True)
class Plan:
    pairs: int
    publishes: int
    """Per side of a pair."""
    attacked_s: float
    attacked_pairs: int


FULL = Plan(pairs=41, publishes=400, attacked_s=3, attacked_pairs=5)
QUICK = Plan(pairs=5, publishes=100, attacked_s=1, attacked_pairs=1)


def run(lab: Lab, *, quick: bool) -> None:
    plan = QUICK if quick else FULL
    facts = surroundings(lab)
    with (
        lab.database("walls", partitions=2) as target,
        connect(target) as owner,
        child("bench.node", target.dsn, "none"),
        _roles(owner) as roles,
    ):
        figures, raw = _measure(target, owner, roles, plan)
    report("walls", facts, figures, raw)


def _measure(target: Target, owner: Connection, roles: dict[str, str], plan: Plan) -> tuple[list[Figure], dict[str, object]]:
    with connect(Target("tenant", make_conninfo(target.dsn, user=roles["tenant"]))) as tenant:
        pairs = [_pair(tenant, owner, plan.publishes, tenant_first=bool(number % 2)) for number in range(plan.pairs)]
        publishers = Side("tenant", [one for one, _ in pairs]), Side("owner", [other for _, other in pairs])
        # At most 1.25 × the owner's time is at least 0.8 × the owner's rate.
        figures = [ratio("publish, tenant : owner", *publishers, 0.8)]
        raw: dict[str, object] = {"publish": {"tenant": publishers[0], "owner": publishers[1]}}
        for level in LEVELS:
            dsn = make_conninfo(target.dsn, user=roles[level])
            sides = {name: Side(name, []) for name in ("steady, quiet", "steady, attacked", "busy, neighbour", "busy, attacked")}
            for number in range(plan.attacked_pairs):
                sides["steady, quiet"].rounds.append(_work(tenant, owner, plan.attacked_s, STEADY_PER_S))
                with _attacker(dsn, known_identifiers(owner, "b"), number):
                    sides["steady, attacked"].rounds.append(_work(tenant, owner, plan.attacked_s, STEADY_PER_S))
                    sides["busy, attacked"].rounds.append(_work(tenant, owner, plan.attacked_s))
                with _attacker(dsn, known_identifiers(owner, "a"), number):
                    sides["busy, neighbour"].rounds.append(_work(tenant, owner, plan.attacked_s))
            for load, other in (("steady", "quiet"), ("busy", "neighbour")):
                name = f"{load} rate of b, under attack by {level} of a : {other}"
                figures.append(ratio(name, sides[f"{load}, attacked"], sides[f"{load}, {other}"], 0.9))
            raw[level] = sides
    return figures, raw


@contextmanager
def _roles(owner: Connection) -> Iterator[dict[str, str]]:
    """Two namespaces with a topic and a rule, a tenant of b, and attackers of a; the roles are dropped at the end."""
    for namespace in ("a", "b"):
        create_namespace(owner, namespace)
        create_topic(owner, "orders", namespace=namespace, partitions=2)
        create_rule(owner, Rule(name="notify", topic="orders", event_type="placed", action="NOTIFY"), namespace=namespace)
    roles = {name: f"walls_{name}" for name in ("tenant", *LEVELS)}
    for role in roles.values():
        owner.execute(f"create role {role} login")
    grant_namespace(owner, roles["tenant"], "b", "publish")
    for level in LEVELS:
        grant_namespace(owner, roles[level], "a", level)
    try:
        yield roles
    finally:
        for role in roles.values():
            owner.execute(f"drop owned by {role}")
            owner.execute(f"drop role {role}")


def _pair(tenant: Connection, owner: Connection, publishes: int, *, tenant_first: bool) -> tuple[Round, Round]:
    if tenant_first:
        ours = _publish(tenant, publishes)
        return ours, _publish(owner, publishes)
    theirs = _publish(owner, publishes)
    return _publish(tenant, publishes), theirs


def _publish(conn: Connection, publishes: int) -> Round:
    started, cpu = time.perf_counter(), time.process_time()
    for number in range(publishes):
        conn.execute(PUBLISH, (number, f"k{number % 5}", "b"))
    elapsed = time.perf_counter() - started
    return Round(publishes / elapsed, 1e6 * (time.process_time() - cpu) / publishes)


def _work(tenant: Connection, owner: Connection, seconds: float, per_s: float | None = None) -> Round:
    """Publishes for a time, then waits until the rule has fired on each event; the rate counts both. `per_s` is the highest rate."""
    fired = _fired(owner)
    started, cpu = time.perf_counter(), time.process_time()
    for published in itertools.count(1):
        tenant.execute(PUBLISH, (published, f"k{published % 5}", "b"))
        now = time.perf_counter() - started
        if now >= seconds:
            break
        if per_s and now < published / per_s:
            time.sleep(published / per_s - now)
    while _fired(owner) < fired + published:
        time.sleep(0.01)
    elapsed = time.perf_counter() - started
    return Round(published / elapsed, 1e6 * (time.process_time() - cpu) / published)


def _fired(owner: Connection) -> int:
    row = owner.execute(FIRED).fetchone()
    assert row is not None
    return int(row[0])


@contextmanager
def _attacker(dsn: str, other: Identifiers, seed: int) -> Iterator[None]:
    """An attacker in a process of its own, so that it shares the server but not the interpreter."""
    process = multiprocessing.get_context("spawn").Process(target=attack, args=(dsn, other, 1_000_000, seed), daemon=True)
    process.start()
    try:
        yield
    finally:
        process.kill()
        process.join()
