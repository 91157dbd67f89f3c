"""The one door to the condition language. To a pattern, a condition is its canonical text.

Two different texts are two independent conditions: no engine and no analysis looks inside."""

from __future__ import annotations

from functools import lru_cache
from typing import cast

from headrace.lang.condition import Evaluate, Subject, parse, to_python


def canonical(text: str) -> str:
    """The text that decides sameness. Raises ConditionError where the text is no condition."""
    return parse(text).text


@lru_cache(maxsize=4096)
def _compiled(text: str) -> Evaluate:
    return to_python(parse(text))


def evaluate_condition(text: str, subject: object) -> bool | None:
    """The default evaluator; the subject is one of the condition language (type, key, headers, payload, emitted_at)."""
    return _compiled(text)(cast(Subject, subject))
