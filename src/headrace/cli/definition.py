"""What the commands of rules and correlators say alike: a definition, and what became of it."""

from __future__ import annotations

import msgspec

from headrace.correlators import CorrelatorState
from headrace.rules import RuleState


def state_facts(state: RuleState | CorrelatorState) -> dict[str, object]:
    """The definition and the rest of the state side by side."""
    facts: dict[str, object] = msgspec.to_builtins(state)
    definition = facts.pop("rule" if isinstance(state, RuleState) else "correlator")
    assert isinstance(definition, dict)
    return definition | facts


def status_and_remark(state: RuleState | CorrelatorState) -> tuple[str, str]:
    """Whether it is in force, and what is to be said about that."""
    definition = state.rule if isinstance(state, RuleState) else state.correlator
    status = state.status if definition.active else f"{state.status}, not active"
    return status, state.error.splitlines()[0] if state.error else state.warning or ""
