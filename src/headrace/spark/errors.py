"""Errors that come back through Spark.

What fails in one of Spark's own processes reaches the caller as an exception of Spark: its text is a traceback, and our message is
somewhere in it. Promises: the caller of our own functions gets our error, with our message as its first line; any other error passes
as it is."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

import headrace.core
from headrace.core import HeadraceError, Invalid

_ERROR = re.compile(r"^\s*(?:\S*: )?headrace(?:\.\w+)+\.(?P<name>\w+): (?P<message>.+)$", re.MULTILINE)
_INVALID = ("ConditionError", "PatternError", "TimerFlood")
"""Errors of the languages, which know more than their message."""


def find_headrace_error(error: BaseException) -> HeadraceError | None:
    """Our error in the text of an exception of Spark; None if there is none."""
    found = list(_ERROR.finditer(str(error)))
    if not found:
        return None
    # The last one: before it there may be those that it was raised from.
    name, message = found[-1]["name"], found[-1]["message"].strip()
    class_ = getattr(headrace.core, name, Invalid if name in _INVALID else HeadraceError)
    return class_(message) if isinstance(class_, type) and issubclass(class_, HeadraceError) else HeadraceError(message)


@contextmanager
def map_spark_errors() -> Iterator[None]:
    """Raises our own error in place of the exception of Spark that carries it."""
    try:
        yield
    except HeadraceError:
        raise
    except Exception as error:
        ours = find_headrace_error(error)
        if ours is None:
            raise
        raise ours from None
