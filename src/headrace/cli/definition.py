"""How the commands of rules and correlators show a definition and its status."""

from __future__ import annotations

import msgspec

from headrace.correlators import CorrelatorState
from headrace.rules import RuleState


def state_facts(state: RuleState | CorrelatorState) -> dict[str, object]:
    """All fields of the definition and of its state, for JSON."""
    facts: dict[str, object] = msgspec.to_builtins(state)
    definition = facts.pop("rule" if isinstance(state, RuleState) else "correlator")
    assert isinstance(definition, dict)
    return definition | facts


def status_and_remark(state: RuleState | CorrelatorState) -> tuple[str, str]:
    """The status, and the first line of the error or warning."""
    definition = state.rule if isinstance(state, RuleState) else state.correlator
    status = state.status if definition.active else f"{state.status}, not active"
    return status, state.error.splitlines()[0] if state.error else state.warning or ""
