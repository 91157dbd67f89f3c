"""How the commands of rules and correlators show a definition and its status."""

from __future__ import annotations

import msgspec

from headrace.cli.output import Column
from headrace.correlators import CorrelatorState
from headrace.rules import RuleState

State = RuleState | CorrelatorState


def state_facts(state: State) -> dict[str, object]:
    """All fields of the definition and of its state, for JSON."""
    facts: dict[str, object] = msgspec.to_builtins(state)
    definition = facts.pop("rule" if isinstance(state, RuleState) else "correlator")
    assert isinstance(definition, dict)
    return definition | facts


def _status(state: State) -> str:
    definition = state.rule if isinstance(state, RuleState) else state.correlator
    status = f"{state.status}, paused" if state.paused else state.status
    return status if definition.active else f"{status}, not active"


STATE_COLUMNS: list[Column] = [
    "version",
    ("status", _status),
    ("", lambda state: state.error.splitlines()[0] if state.error else state.warning or ""),
]
"""Version and status, and the first line of the error or the warning."""
