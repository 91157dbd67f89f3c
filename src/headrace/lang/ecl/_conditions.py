"""The one door to the rules' condition language. Patterns treat a condition as its canonical text.

Two different texts are two independent conditions: no engine and no analysis looks inside."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable
from functools import lru_cache
from typing import Protocol, cast

from headrace.core._errors import Invalid


class _Condition(Protocol):
    @property
    def text(self) -> str: ...


class _Room(Protocol):
    def parse(self, text: str) -> _Condition: ...

    def to_python(self, condition: _Condition) -> Callable[[object], bool | None]: ...


@lru_cache(maxsize=1)
def _room() -> _Room | None:
    # Looked up late: the pure language works, with an evaluator handed in, where the room is not installed.
    if importlib.util.find_spec("headrace.lang.condition") is None:
        return None
    module = importlib.import_module("headrace.lang.condition")
    return cast(_Room, module) if hasattr(module, "parse") else None


def canonical(text: str) -> str:
    """The condition in the form that decides sameness. Raises Invalid where the condition language refuses it."""
    room = _room()
    return " ".join(text.split()) if room is None else room.parse(text).text


@lru_cache(maxsize=4096)
def _compiled(text: str) -> Callable[[object], bool | None]:
    room = _room()
    if room is None:
        raise Invalid(
            f"condition <{text}> cannot be evaluated: the condition language is missing; hand in an evaluator"
        )
    return room.to_python(room.parse(text))


def evaluate_condition(text: str, subject: object) -> bool | None:
    """The default evaluator: the condition on a subject (type, key, headers, payload, emitted_at)."""
    return _compiled(text)(subject)
