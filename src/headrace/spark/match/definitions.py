"""What `match` accepts as a rule: the library's own, a spec, the name of a live one, a file, or a text."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from headrace.core import Invalid
from headrace.db import Connection
from headrace.evaluate import RuleSpec
from headrace.rules import Rule, get_rule, load_rules

AnyRule = RuleSpec | Rule | str
"""A text is the name of a live rule if there is a connection, a file if it ends in .yaml, .yml or .py, else
`on TYPE if CONDITION`."""
FILE_SUFFIXES = (".yaml", ".yml", ".py")
_TEXT = re.compile(r"on\s+(?:\"(?P<quoted>[^\"]+)\"|(?P<plain>\S+))(?:\s+if\s+(?P<condition>.+))?", re.DOTALL)


def rule_specs(
    rules: AnyRule | Sequence[AnyRule], *, conn: Connection | None = None, namespace: str | None = None
) -> tuple[RuleSpec, ...]:
    """The specs of one or many rules. Raises UnknownRule, InvalidDefinitionFile, ConditionError, Invalid."""
    values = [rules] if isinstance(rules, RuleSpec | Rule | str) else list(rules)
    specs = tuple(spec for value in values for spec in _specs(value, conn, namespace))
    if not specs:
        raise Invalid("match needs at least one rule")
    return specs


def _specs(value: AnyRule, conn: Connection | None, namespace: str | None) -> Iterator[RuleSpec]:
    if isinstance(value, RuleSpec):
        yield value
    elif isinstance(value, Rule):
        yield spec_of(value)
    elif Path(value).suffix in FILE_SUFFIXES:
        yield from map(spec_of, load_rules(value))
    elif conn is not None:
        state = get_rule(conn, value, namespace=namespace)
        yield spec_of(state.rule, version=state.version)
    else:
        yield _parse(value)


def spec_of(rule: Rule, *, version: int = 1) -> RuleSpec:
    """A rule as Spark runs it, on all events of its topic."""
    return RuleSpec(
        name=rule.name,
        event_type=rule.event_type,
        action=rule.action,
        condition=rule.condition,
        version=version,
        topic=rule.topic,
    )


def _parse(text: str) -> RuleSpec:
    parts = _TEXT.fullmatch(text.strip())
    if parts is None:
        raise Invalid(
            f"{text!r} is not the text of a rule; write: on order.paid if (object -> 'amount')::int > 100. "
            "For the name of a live rule, give conn as well"
        )
    return RuleSpec(
        name=text.strip(), event_type=parts["quoted"] or parts["plain"], action="", condition=parts["condition"] or "true"
    )
