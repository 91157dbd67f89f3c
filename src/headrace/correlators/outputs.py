"""Outputs: the action or event that each token of a correlator becomes, and its JSON form."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import msgspec

from headrace.core import InvalidOutputs


@dataclass(frozen=True, kw_only=True)
class ActionOutput:
    """A token becomes an action, with the instance's key."""

    action: str
    priority: int = 0
    delay_s: int = 0


@dataclass(frozen=True, kw_only=True)
class EventOutput:
    """A token becomes an event of this type on a topic of the namespace; with the instance's key unless `keyed` is false."""

    event: str
    topic: str
    keyed: bool = True


Output = ActionOutput | EventOutput


def read_outputs(outputs: object) -> dict[str, Output]:
    """Reads the outputs of a correlator from their JSON. Raises InvalidOutputs."""
    if not isinstance(outputs, dict):
        raise InvalidOutputs('outputs are an object of tokens; write {"token": {"action": "NAME"}}')
    return {token: _read_output(token, value) for token, value in outputs.items()}


def _read_output(token: str, value: object) -> Output:
    kind: type[Output] = EventOutput if isinstance(value, dict) and "event" in value else ActionOutput
    try:
        if isinstance(value, dict) and (unknown := set(value) - set(kind.__dataclass_fields__)):
            raise msgspec.ValidationError(f"unknown {', '.join(sorted(unknown))}")
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        hint = 'write {"action": "NAME", "priority": 0, "delay_s": 0} or {"event": "type", "topic": "name", "keyed": true}'
        raise InvalidOutputs(f"the output of token {token!r}: {error}; {hint}") from None


def check_tokens(outputs: Mapping[str, object], tokens: Sequence[str]) -> None:
    """Raises InvalidOutputs for an output whose token the pattern does not push: most of the time a misspelt token."""
    unknown = [token for token in outputs if token not in tokens]
    if not unknown:
        return
    message = " and ".join(f"output {token!r} is of a token that the pattern does not push" for token in unknown)
    known = f"it pushes {', '.join(tokens)}" if tokens else f"it pushes nothing; write push({unknown[0]}) {{…}} in the pattern"
    raise InvalidOutputs(f"{message}; {known}. Correct the token, or remove the output")


def encode_outputs(outputs: Mapping[str, Output]) -> dict[str, dict[str, str | int | bool]]:
    """Outputs as headrace.correlator stores them."""
    return {token: {name: getattr(output, name) for name in output.__dataclass_fields__} for token, output in outputs.items()}


def describe_outputs(outputs: Mapping[str, Output]) -> str:
    """Outputs in words: `alarm → CALL, count → totals/counted`."""
    return ", ".join(
        f"{token} → {output.action if isinstance(output, ActionOutput) else f'{output.topic}/{output.event}'}"
        for token, output in outputs.items()
    )
