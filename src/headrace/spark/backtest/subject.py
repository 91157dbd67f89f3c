"""What is tested: rules or a correlator, by the name of the live one or out of a file."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from headrace.core import Invalid, UnknownCorrelator, UnknownRule
from headrace.correlators import Correlator, get_correlator
from headrace.db import Connection
from headrace.rules import Rule, get_rule, load_rules
from headrace.spark import CorrelatorSpec, RuleSpec


@dataclass(frozen=True)
class Subject:
    """A rule or a correlator as Spark runs it, over all of the range, whenever it came into force."""

    topic: str
    spec: RuleSpec | CorrelatorSpec
    live: bool
    """Is there, or was there, a live one of this name to compare with?"""
    notes: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        return self.spec.name

    @property
    def definition(self) -> str:
        if isinstance(self.spec, RuleSpec):
            return f"on {self.spec.event_type} if {self.spec.condition}"
        return self.spec.pattern


def rule_subjects(conn: Connection, given: str, *, namespace: str | None = None) -> list[Subject]:
    """The rule of this name, or the rules of a file (.yaml, .yml, .py). Raises UnknownRule, BadRuleFile, ConditionError."""
    if Path(given).suffix in (".yaml", ".yml", ".py"):
        return [_of_rule(rule, live=_rule_lives(conn, rule.name, namespace)) for rule in load_rules(given)]
    return [_of_rule(get_rule(conn, given, namespace=namespace).rule, live=True)]


def _of_rule(rule: Rule, *, live: bool) -> Subject:
    spec = RuleSpec(name=rule.name, event_type=rule.event_type, action=rule.action, condition=rule.condition, topic=rule.topic)
    return Subject(rule.topic, spec, live)


def _rule_lives(conn: Connection, name: str, namespace: str | None) -> bool:
    try:
        get_rule(conn, name, namespace=namespace)
    except UnknownRule:
        return False
    return True


def correlator_subject(
    conn: Connection,
    given: str,
    *,
    topic: str | None = None,
    key: str | None = None,
    name: str | None = None,
    namespace: str | None = None,
) -> Subject:
    """The correlator of this name, or the pattern in a file, which takes topic and key from the live one called `name` (or as
    the file) unless they are given. Raises UnknownCorrelator, Invalid, PatternError."""
    path = Path(given)
    if not path.is_file():
        return _of_correlator(get_correlator(conn, given, namespace=namespace).correlator, live=True)
    called = name or path.stem
    try:
        live = get_correlator(conn, called, namespace=namespace).correlator
    except UnknownCorrelator:
        live = None
    wanted = topic or (live.topic if live else None)
    if wanted is None:
        raise Invalid(f"there is no live correlator {called!r} to take the topic from; give --topic, or --name of the live one")
    tested = Correlator(
        name=called,
        topic=wanted,
        pattern=path.read_text(encoding="utf-8"),
        key=key if key is not None or live is None else live.key,
        evidence_max=live.evidence_max if live else 100,
    )
    return _of_correlator(tested, live=live is not None)


def _of_correlator(one: Correlator, *, live: bool) -> Subject:
    spec = CorrelatorSpec(name=one.name, pattern=one.pattern, key=one.key, topic=one.topic, evidence_max=one.evidence_max)
    notes = (f"{one.name}: forget_after is not taken into account; no key is forgotten",) if one.forget_after else ()
    return Subject(one.topic, spec, live, notes)
