"""Schemas: what validation adds to a publish in Python, client and backend.

Three namespaces of one database: without a schema, with a schema whose validation is off, and with one that rejects. Their events go
into the same kind of topic, by one connection. The last side checks in the library too, by jsonschema-rs.

A round of a side is many short pieces, in turns with those of the other sides, and each time another side is the first: what else the
machine does meets all of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from statistics import median
from typing import TypeAlias

from bench.clocks import Clocks
from bench.lab import Lab, settle, surroundings
from bench.result import Figure, Round, Side, report
from headrace import publish
from headrace.db import Connection, connect, create_namespace
from headrace.definitions.schemas import PayloadChecker, load_checker, set_schema
from headrace.log.topics import create_topic

Kinds: TypeAlias = Mapping[str, tuple[str, PayloadChecker | None]]
"""The sides: namespace, and the schemas that the library checks by."""

TYPE = "order.placed"
SCHEMA = {
    "type": "object",
    "properties": {
        "order": {"type": "integer", "minimum": 1},
        "customer": {"type": "string", "maxLength": 40},
        "status": {"enum": ["placed", "paid", "shipped"]},
        "total": {"type": "number", "minimum": 0},
        "items": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {"sku": {"type": "string"}, "n": {"type": "integer", "minimum": 1}},
                "required": ["sku", "n"],
            },
        },
    },
    "required": ["order", "customer", "total"],
}
PAYLOAD = {
    "order": 4711,
    "customer": "c-17",
    "status": "placed",
    "total": 129.9,
    "items": [{"sku": "a-1", "n": 2}, {"sku": "b-7", "n": 1}],
}
COST_MAX = 0.15
NOTHING = 0.03
"""What counts as no cost: the noise of two equal sides."""


@dataclass(frozen=True)
class Plan:
    rounds: int
    pieces: int


FULL, QUICK = Plan(rounds=9, pieces=24), Plan(rounds=3, pieces=3)
PIECE = 100
"""Events of a piece, and of a transaction."""


def run(lab: Lab, *, quick: bool) -> None:
    plan = QUICK if quick else FULL
    facts = surroundings(lab)
    figures: list[Figure] = []
    raw: dict[str, object] = {}
    with lab.database("schemas", partitions=1) as target, connect(target) as conn:
        checker = _prepare(conn)
        kinds: Kinds = {
            "no schema": ("plain", None),
            "off": ("unchecked", None),
            "reject": ("checked", None),
            "reject, checked by the library too": ("checked", checker),
        }
        for mode in ("in a transaction", "autocommit"):
            sides = {name: Side(name, []) for name in kinds}
            with connect(target) as client:
                for number in range(plan.rounds + 1):
                    results = _rounds(conn, client, kinds, plan.pieces, is_transaction=mode == "in a transaction")
                    # The first round prepares statements and fills caches.
                    for name, result in results.items() if number else ():
                        sides[name].rounds.append(result)
            base = sides["no schema"]
            figures.append(_cost(f"validation off : no schema, {mode}", sides["off"], base, NOTHING))
            figures.append(_cost(f"validation reject : no schema, {mode}", sides["reject"], base, COST_MAX))
            figures.append(
                _cost(
                    f"the same, checked by the library too, {mode}", sides["reject, checked by the library too"], base, COST_MAX
                )
            )
            raw[mode] = list(sides.values())
    report("schemas", facts, figures, raw)


def _prepare(conn: Connection) -> PayloadChecker:
    for namespace in ("plain", "unchecked", "checked"):
        create_namespace(conn, namespace)
        create_topic(conn, "bench", namespace=namespace)
    set_schema(conn, TYPE, SCHEMA, validation="off", namespace="unchecked")
    set_schema(conn, TYPE, SCHEMA, validation="reject", namespace="checked")
    return load_checker(conn, namespace="checked")


def _rounds(conn: Connection, client: Connection, kinds: Kinds, pieces: int, *, is_transaction: bool) -> dict[str, Round]:
    """One round of every side."""
    conn.execute("truncate headrace_internal.outbox")
    settle(conn)
    results: dict[str, list[Round]] = {name: [] for name in kinds}
    names = list(kinds)
    for number in range(pieces):
        first = number % len(names)
        for name in names[first:] + names[:first]:
            namespace, schemas = kinds[name]
            results[name].append(_piece(client, namespace, schemas, is_transaction=is_transaction))
    return {name: _median(rounds) for name, rounds in results.items()}


def _piece(client: Connection, namespace: str, schemas: PayloadChecker | None, *, is_transaction: bool) -> Round:
    clocks = Clocks.read(client.info.backend_pid)
    scope: Callable[[], object] = client.transaction if is_transaction else nullcontext
    with scope():  # type: ignore[attr-defined]
        for _ in range(PIECE):
            publish(client, "bench", TYPE, PAYLOAD, key="c-17", namespace=namespace, schemas=schemas)
    return clocks.round(PIECE)


def _median(pieces: list[Round]) -> Round:
    return Round(median(piece.rate for piece in pieces), median(piece.cpu_us for piece in pieces))


def _cost(name: str, side: Side, base: Side, target: float) -> Figure:
    """How much more CPU per event, as a share, the median over pairs of rounds."""
    pairs = [a.cpu_us / b.cpu_us - 1 for a, b in zip(side.rounds, base.rounds, strict=True)]
    detail = f"CPU {side.cpu_us:.0f} : {base.cpu_us:.0f} µs, pairs {min(pairs):.2f}–{max(pairs):.2f}, {side.rate:,.0f}/s : {base.rate:,.0f}/s"
    return Figure(name, median(pairs), target, "", at_most=True, detail=detail)
