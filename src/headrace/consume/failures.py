"""Failures of handlers: what is recorded and logged about an error, and what the handler wants to follow."""

from __future__ import annotations

import asyncio
import concurrent.futures
import traceback
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Literal, TypeAlias

from headrace.core import Bury, DeliveryError, Discard, HandlerOutcome, Retry, TargetGone, TargetRefused, error_text

TRACEBACK_CHARS_MAX = 20_000


class HandlerInterrupted(Exception):
    """A handler raised what is no Exception, such as CancelledError or SystemExit, although nobody stops its worker. It counts as a
    failure of the handler; its cause is what the handler raised."""


_CALLERS = (str(Path(__file__).parents[1]), str(Path(asyncio.__file__).parent), str(Path(concurrent.futures.__file__).parent))

Verdict: TypeAlias = Literal["discard", "bury", "refuse", "retry"]
"""What a handler asked for instead of the failure policy; `refuse`: no attempt is left, and the policy says what follows."""


_VERDICTS: Mapping[type[Exception], Verdict] = {
    Discard: "discard",
    Bury: "bury",
    TargetRefused: "refuse",
    # The relay is disabled meanwhile; the event waits for its end.
    TargetGone: "retry",
}


@dataclass(frozen=True)
class HandlerError:
    """An error that a handler raised."""

    error: BaseException
    summary: str
    """Class and message."""
    traceback: str
    verdict: Verdict | None
    after_s: float | None
    """The pause that a Retry asked for."""

    @property
    def line(self) -> str:
        """Class and first line of the message, for a log and for tables."""
        return first_line(self.summary)

    @property
    def exc_info(self) -> tuple[type[BaseException], BaseException, TracebackType | None] | None:
        """What the log shows as a traceback; nothing for an outcome that the handler chose, or for text that no log can encode."""
        if isinstance(self.error, HandlerOutcome | DeliveryError) and self.error.__cause__ is None:
            return None
        if not _is_encodable(self.error):
            return None
        return type(self.error), self.error, _handler_frames(self.error)


def describe_error(error: BaseException) -> HandlerError:
    """Everything that is kept of an error."""
    if isinstance(error, HandlerInterrupted) and error.__cause__ is not None:
        error = error.__cause__
    verdict = next((verdict for kind, verdict in _VERDICTS.items() if isinstance(error, kind)), None)
    after_s = error.after_s if isinstance(error, Retry) else error.retry_after_s if isinstance(error, DeliveryError) else None
    return HandlerError(error, error_summary(error), traceback_text(error), verdict, after_s)


def error_summary(error: BaseException) -> str:
    """Class and message of an error; dead letters are grouped by its first line."""
    message = error_text(error)
    return storable_text(f"{type(error).__name__}: {message}" if message else type(error).__name__)


def traceback_text(error: BaseException) -> str:
    """The traceback as text. Of a long one the middle is left out: its end names the error."""
    text = storable_text("".join(traceback.format_exception(type(error), error, _handler_frames(error))))
    half = TRACEBACK_CHARS_MAX // 2 - 10
    return text if len(text) <= TRACEBACK_CHARS_MAX else f"{text[:half]}\n  …\n{text[-half:]}"


def _handler_frames(error: BaseException) -> TracebackType | None:
    """The traceback from the handler on: the frames of headrace that called it help nobody."""
    frames = error.__traceback__
    while frames is not None and frames.tb_frame.f_code.co_filename.startswith(_CALLERS):
        frames = frames.tb_next
    return frames or error.__traceback__


def _is_encodable(error: BaseException) -> bool:
    text = "".join(traceback.format_exception(error))
    return storable_text(text) == text


def first_line(text: str) -> str:
    return text.split("\n", 1)[0]


def storable_text(text: str) -> str:
    """The text without characters that PostgreSQL cannot store."""
    return text.replace("\0", "�").encode("utf-8", "replace").decode()
