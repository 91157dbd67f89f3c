"""What `match` and `correlate` accept: the library's own rules and correlators, specs, the names of live ones, files, or texts."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TypeVar

from headrace.core import Invalid
from headrace.correlators import Correlator, get_correlator, load_correlators
from headrace.db import Connection
from headrace.evaluate import CorrelatorSpec, RuleSpec
from headrace.rules import Rule, get_rule, load_rules

AnyRule = RuleSpec | Rule | str
"""A text is the name of a live rule if there is a connection, a file if it ends in .yaml, .yml or .py, else
`on TYPE if CONDITION`."""
AnyCorrelator = CorrelatorSpec | Correlator | str
"""A text is the name of a live correlator if there is a connection, a file if it ends in .yaml, .yml or .py, else a pattern."""
FILE_SUFFIXES = (".yaml", ".yml", ".py")
_TEXT = re.compile(r"on\s+(?:\"(?P<quoted>[^\"]+)\"|(?P<plain>\S+))(?:\s+if\s+(?P<condition>.+))?", re.DOTALL)
_Definition = TypeVar("_Definition", Rule, Correlator)
_Spec = TypeVar("_Spec", RuleSpec, CorrelatorSpec)


def rule_specs(
    rules: AnyRule | Sequence[AnyRule], *, conn: Connection | None = None, namespace: str | None = None
) -> tuple[RuleSpec, ...]:
    """The specs of one or many rules. Raises UnknownRule, InvalidDefinitionFile, ConditionError, Invalid."""

    def from_text(text: str) -> RuleSpec:
        if conn is None:
            return _parse_rule(text)
        state = get_rule(conn, text, namespace=namespace)
        return _rule_spec(state.rule, version=state.version)

    values = [rules] if isinstance(rules, RuleSpec | Rule | str) else rules
    specs = _read_specs(values, _rule_spec, load_rules, from_text)
    if not specs:
        raise Invalid("match needs at least one rule")
    return tuple(specs)


def correlator_specs(
    correlators: AnyCorrelator | Sequence[AnyCorrelator],
    *,
    key: str | None = None,
    conn: Connection | None = None,
    namespace: str | None = None,
) -> tuple[CorrelatorSpec, ...]:
    """The specs of one or many correlators; `key` is that of patterns given as text. Raises UnknownCorrelator, PatternError,
    InvalidDefinitionFile, and Invalid for two of one name."""

    def from_text(text: str) -> CorrelatorSpec:
        if conn is None:
            return CorrelatorSpec(name="pattern", pattern=text, key=key)
        state = get_correlator(conn, text, namespace=namespace)
        return _correlator_spec(state.correlator, version=state.version)

    values = [correlators] if isinstance(correlators, CorrelatorSpec | Correlator | str) else correlators
    specs = _read_specs(values, _correlator_spec, load_correlators, from_text)
    if not specs:
        raise Invalid("correlate needs at least one correlator")
    names = [(spec.name, spec.version) for spec in specs]
    if duplicates := {name for name in names if names.count(name) > 1}:
        labels = ", ".join(sorted(f"{name} (version {version})" for name, version in duplicates))
        raise Invalid(
            f"two correlators have the same name and version: {labels}; nobody could say which of them an output is from"
        )
    return tuple(specs)


def _read_specs(
    values: Iterable[_Spec | _Definition | str],
    from_definition: Callable[[_Definition], _Spec],
    load: Callable[[str], Iterable[_Definition]],
    from_text: Callable[[str], _Spec],
) -> list[_Spec]:
    specs: list[_Spec] = []
    for value in values:
        if isinstance(value, RuleSpec | CorrelatorSpec):
            specs.append(value)
        elif isinstance(value, Rule | Correlator):
            specs.append(from_definition(value))
        elif Path(value).suffix in FILE_SUFFIXES:
            specs += map(from_definition, load(value))
        else:
            specs.append(from_text(value))
    return specs


def _rule_spec(rule: Rule, *, version: int = 1) -> RuleSpec:
    """A rule as Spark runs it, on all events of its topic."""
    return RuleSpec(
        name=rule.name,
        event_type=rule.event_type,
        action=rule.action,
        condition=rule.condition,
        version=version,
        topic=rule.topic,
    )


def _correlator_spec(correlator: Correlator, *, version: int = 1) -> CorrelatorSpec:
    """A correlator as Spark runs it, over all events of its topic. Keys are not forgotten: `forget_after` is for live states."""
    return CorrelatorSpec(
        name=correlator.name,
        pattern=correlator.pattern,
        key=correlator.key,
        version=version,
        topic=correlator.topic,
        evidence_max=correlator.evidence_max,
    )


def _parse_rule(text: str) -> RuleSpec:
    parts = _TEXT.fullmatch(text.strip())
    if parts is None:
        raise Invalid(
            f"{text!r} is not the text of a rule; write: on order.paid if (object -> 'amount')::int > 100. "
            "For the name of a live rule, give conn as well"
        )
    return RuleSpec(
        name=text.strip(), event_type=parts["quoted"] or parts["plain"], action="", condition=parts["condition"] or "true"
    )
