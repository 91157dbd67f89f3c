"""What a backtest runs: rules or a correlator, by the name of the live one or from a file."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from headrace.core import Invalid, UnknownCorrelator, UnknownRule
from headrace.correlators import CORRELATORS, Correlator, get_correlator
from headrace.db import Connection
from headrace.definitions import load_definitions
from headrace.evaluate import CorrelatorSpec, RuleSpec
from headrace.rules import RULES, Rule, get_rule, load_rules
from headrace.spark.frames import correlator_specs, rule_specs


@dataclass(frozen=True)
class BacktestSubject:
    """A rule or a correlator as Spark runs it, over the whole range, whenever its version became active."""

    topic: str
    spec: RuleSpec | CorrelatorSpec
    live: bool
    """True if there is a live one of this name to compare with."""
    notes: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        return self.spec.name

    @property
    def kind(self) -> str:
        return "rule" if isinstance(self.spec, RuleSpec) else "correlator"

    @property
    def definition(self) -> str:
        if isinstance(self.spec, RuleSpec):
            event_type = self.spec.event_type
            name = f'"{event_type}"' if " " in event_type else event_type
            return f"on {name} if {self.spec.condition}"
        return self.spec.pattern


def rule_subjects(conn: Connection, name_or_file: str, *, namespace: str | None = None) -> list[BacktestSubject]:
    """The rule of this name, or the rules of a file (.yaml, .yml, .py). Raises UnknownRule, InvalidDefinitionFile, ConditionError."""
    if Path(name_or_file).suffix in (".yaml", ".yml", ".py"):
        return [_rule_subject(rule, live=_is_live(conn, rule.name, namespace)) for rule in load_rules(name_or_file)]
    return [_rule_subject(get_rule(conn, name_or_file, namespace=namespace).rule, live=True)]


def file_subjects(conn: Connection, file: str | Path, *, namespace: str | None = None) -> list[BacktestSubject]:
    """The rules and correlators of a file (.yaml, .yml, .py). Raises InvalidDefinitionFile, ConditionError, PatternError."""
    subjects: list[BacktestSubject] = []
    for definition in load_definitions(file, (RULES, CORRELATORS)):
        if isinstance(definition, Rule):
            subjects.append(_rule_subject(definition, live=_is_live(conn, definition.name, namespace)))
        elif isinstance(definition, Correlator):
            live, notes = _live_correlator(conn, definition.name, definition.topic, namespace)
            subjects.append(_correlator_subject(definition, live=live is not None, notes=notes))
    return subjects


def _rule_subject(rule: Rule, *, live: bool) -> BacktestSubject:
    (spec,) = rule_specs(rule)
    return BacktestSubject(rule.topic, spec, live)


def _is_live(conn: Connection, name: str, namespace: str | None) -> bool:
    try:
        get_rule(conn, name, namespace=namespace)
    except UnknownRule:
        return False
    return True


def correlator_subject(
    conn: Connection,
    name_or_file: str,
    *,
    topic: str | None = None,
    key: str | None = None,
    name: str | None = None,
    namespace: str | None = None,
) -> BacktestSubject:
    """The correlator of this name, or the pattern in a file. A pattern takes topic and key from the live correlator `name`
    (default: the name of the file) unless they are given. Raises UnknownCorrelator, Invalid, PatternError."""
    path = Path(name_or_file)
    if not path.is_file():
        return _correlator_subject(get_correlator(conn, name_or_file, namespace=namespace).correlator, live=True)
    name = name or path.stem
    live, notes = _live_correlator(conn, name, topic, namespace)
    topic = topic or (live.topic if live else None)
    if topic is None:
        raise Invalid(f"there is no live correlator {name!r} to take the topic from; give --topic, or --name of the live one")
    correlator = Correlator(
        name=name,
        topic=topic,
        pattern=path.read_text(encoding="utf-8"),
        key=key if key is not None or live is None else live.key,
        evidence_max=live.evidence_max if live else 100,
    )
    return _correlator_subject(correlator, live=live is not None, notes=notes)


def _live_correlator(
    conn: Connection, name: str, topic: str | None, namespace: str | None
) -> tuple[Correlator | None, tuple[str, ...]]:
    """The live correlator to compare a pattern with: None, with a note, if it runs on another topic, whose positions are others."""
    try:
        live = get_correlator(conn, name, namespace=namespace).correlator
    except UnknownCorrelator:
        return None, ()
    if topic is not None and live.topic != topic:
        return None, (f"{name}: the live correlator of this name runs on {live.topic}, not on {topic}; it is not compared",)
    return live, ()


def _correlator_subject(correlator: Correlator, *, live: bool, notes: tuple[str, ...] = ()) -> BacktestSubject:
    if correlator.forget_after:
        notes = (*notes, f"{correlator.name}: forget_after is ignored; no key is forgotten")
    (spec,) = correlator_specs(correlator)
    return BacktestSubject(correlator.topic, spec, live, notes)
