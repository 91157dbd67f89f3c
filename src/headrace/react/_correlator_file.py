"""Correlators kept in a file: YAML with a list `correlators`, or Python with a variable `correlators`; and the plan to get there.

Promises: a file is taken whole or not at all; a plan drops only what came from a file before; applying it is one transaction."""

from __future__ import annotations

import runpy
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import msgspec
import yaml

from headrace.core import BadRuleFile, HeadraceError
from headrace.db import Connection
from headrace.lang.condition import parse_scalar
from headrace.lang.ecl import parse
from headrace.react._correlator import (
    Carried,
    Correlator,
    CorrelatorState,
    alter_correlator,
    create_correlator,
    drop_correlator,
    list_correlators,
    read_outputs,
)


@dataclass(frozen=True)
class CorrelatorChange:
    """A correlator that is there with another definition, and the names of what differs."""

    before: CorrelatorState
    after: Correlator

    @property
    def differs(self) -> tuple[str, ...]:
        fields = Correlator.__dataclass_fields__
        return tuple(name for name in fields if getattr(self.before.correlator, name) != getattr(self.after, name))


@dataclass(frozen=True)
class CorrelatorPlan:
    """What `apply_correlators` will do. `drop` holds only correlators that came from the same source before."""

    create: tuple[Correlator, ...]
    change: tuple[CorrelatorChange, ...]
    drop: tuple[CorrelatorState, ...]
    same: tuple[CorrelatorState, ...]
    source: str
    namespace: str | None

    @property
    def empty(self) -> bool:
        return not (self.create or self.change or self.drop)


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


def load_correlators(path: Path | str) -> tuple[Correlator, ...]:
    """The correlators of a file, checked; `forget_after` as P30D (ISO 8601). Raises BadRuleFile, PatternError, ConditionError."""
    path = Path(path)
    read = {".yaml": _from_yaml, ".yml": _from_yaml, ".py": _from_python}.get(path.suffix)
    if read is None or not path.is_file():
        raise BadRuleFile(f"there is no YAML or Python file {path}; name one that ends in .yaml, .yml or .py")
    found = tuple(read(path))
    names = [correlator.name for correlator in found]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise BadRuleFile(f"{path.name}: there twice: {', '.join(twice)}; give one another name")
    for correlator in found:
        try:
            parse(correlator.pattern)
            if correlator.key is not None:
                parse_scalar(correlator.key)
        except HeadraceError as error:
            error.add_note(f"in {path.name}, correlator {correlator.name!r}")
            raise
    return found


def _from_yaml(path: Path) -> Sequence[Correlator]:
    try:
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (yaml.YAMLError, UnicodeDecodeError, RecursionError) as error:
        raise BadRuleFile(f"{path.name} is not YAML: {error}") from None
    listed = content.get("correlators") if isinstance(content, dict) else None
    if not isinstance(listed, list):
        raise BadRuleFile(
            f"{path.name} has no list `correlators`; write correlators: and a list of name, topic, pattern, outputs"
        )
    return [_correlator(path.name, number, entry) for number, entry in enumerate(listed, 1)]


def _correlator(file: str, number: int, entry: object) -> Correlator:
    if not isinstance(entry, dict):
        raise BadRuleFile(f"{file}, correlator {number}: not a mapping of names to values")
    if unknown := sorted(map(str, set(entry) - set(Correlator.__dataclass_fields__))):
        known = ", ".join(Correlator.__dataclass_fields__)
        raise BadRuleFile(f"{file}, correlator {number} ({entry.get('name')}): unknown {', '.join(unknown)}; known are {known}")
    try:
        values = msgspec.convert({name: value for name, value in entry.items() if name != "outputs"}, _Plain)
    except msgspec.ValidationError as error:
        raise BadRuleFile(f"{file}, correlator {number} ({entry.get('name')}): {error}") from None
    return Correlator(**msgspec.structs.asdict(values), outputs=read_outputs(entry.get("outputs") or {}))


def _from_python(path: Path) -> Sequence[Correlator]:
    found = runpy.run_path(str(path)).get("correlators")
    if not isinstance(found, list | tuple) or not all(isinstance(one, Correlator) for one in found):
        raise BadRuleFile(f"{path.name} has no list `correlators` of headrace.react.Correlator")
    return found


def plan_correlators(
    conn: Connection, correlators: Sequence[Correlator], *, source: str = "file", namespace: str | None = None
) -> CorrelatorPlan:
    """Compares correlators with the database's. One of another source is taken over if its name is here, else left alone."""
    there = {state.correlator.name: state for state in list_correlators(conn, namespace=namespace)}
    wanted = {correlator.name for correlator in correlators}
    known = [(there[one.name], one) for one in correlators if one.name in there]
    is_same = [state.correlator == one and state.source == source for state, one in known]
    return CorrelatorPlan(
        create=tuple(one for one in correlators if one.name not in there),
        change=tuple(CorrelatorChange(state, one) for (state, one), same in zip(known, is_same, strict=True) if not same),
        drop=tuple(state for name, state in there.items() if state.source == source and name not in wanted),
        same=tuple(state for (state, _), same in zip(known, is_same, strict=True) if same),
        source=source,
        namespace=namespace,
    )


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
