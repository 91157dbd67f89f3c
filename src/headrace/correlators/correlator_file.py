"""Correlators kept in a file, and the plan to get there. A file is taken whole or not at all; applying is one transaction."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from pathlib import Path

import msgspec

from headrace.correlators.carrying import Carried
from headrace.correlators.correlator import (
    Correlator,
    CorrelatorState,
    alter_correlator,
    create_correlator,
    drop_correlator,
    list_correlators,
    parse_texts,
)
from headrace.correlators.outputs import read_outputs
from headrace.db import Connection
from headrace.definitions import Change, FileKind, Plan, compare

CorrelatorChange = Change[Correlator, CorrelatorState]
CorrelatorPlan = Plan[Correlator, CorrelatorState]


class _Plain(msgspec.Struct):
    """The fields of a correlator that a file holds as they are."""

    name: str
    topic: str
    pattern: str
    key: str | None = None
    forget_after: timedelta | None = None
    evidence_max: int = 100
    active: bool = True
    allow_feedback: bool = False


def _convert(entry: Mapping[str, object]) -> Correlator:
    values = msgspec.convert({name: value for name, value in entry.items() if name != "outputs"}, _Plain)
    return Correlator(**msgspec.structs.asdict(values), outputs=read_outputs(entry.get("outputs") or {}))


_FILE = FileKind(noun="correlator", type=Correlator, usual="name, topic, pattern, outputs", convert=_convert, check=parse_texts)


def load_correlators(path: Path | str) -> tuple[Correlator, ...]:
    """The correlators of a file, checked; `forget_after` as P30D (ISO 8601). Raises BadRuleFile, PatternError, ConditionError."""
    return _FILE.load(path)


def plan_correlators(
    conn: Connection, correlators: Sequence[Correlator], *, source: str = "file", namespace: str | None = None
) -> CorrelatorPlan:
    """Compares correlators with the database's. One of another source is taken over if its name is here, else left alone."""
    there = [(state.correlator, state) for state in list_correlators(conn, namespace=namespace)]
    return compare(correlators, there, source=source, namespace=namespace)


def apply_correlators(conn: Connection, plan: CorrelatorPlan, *, restart: bool = False) -> dict[str, Carried]:
    """Does what the plan says, in one transaction; says for every changed correlator what it means for its keys.

    Where the topic differs, the old correlator is dropped and the new one begins."""
    told: dict[str, Carried] = {}
    with conn.transaction():
        for state in plan.drop:
            drop_correlator(conn, state.correlator.name, namespace=plan.namespace)
        for change in plan.change:
            if "topic" in change.differs:
                drop_correlator(conn, change.after.name, namespace=plan.namespace)
                create_correlator(conn, change.after, namespace=plan.namespace, source=plan.source)
                continue
            told[change.after.name] = alter_correlator(
                conn, change.after, namespace=plan.namespace, source=plan.source, restart=restart
            )
        for correlator in plan.create:
            create_correlator(conn, correlator, namespace=plan.namespace, source=plan.source)
    return told
