"""Text of others on the operator's terminal.

Keys, producers, payloads and errors come from whoever publishes. Control characters in them could move the cursor, change the
title or the clipboard, and forge lines; bidirectional overrides could reorder what is read. Here they become visible escapes."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Iterable, MutableMapping
from types import TracebackType
from typing import Any

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment

from headrace.core import redact, safe_lines


class SafeConsole(Console):
    """A console whose texts are safe; its own colours and cursor movements are not text and stay."""

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        for segment in super().render(renderable, options):
            text = segment.text if segment.control else safe_lines(segment.text)
            yield segment if text == segment.text else Segment(text, segment.style)


def safe_log_entry(_logger: object, _method: str, entry: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """A processor of structlog: texts without control characters. Further lines are indented, so that none can be forged."""
    for name, value in entry.items():
        if isinstance(value, str):
            entry[name] = safe_lines(value).replace("\n", "\n    ")
    return entry


def redact_log_entry(_logger: object, _method: str, entry: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """A processor of structlog: texts without passwords, also inside of the fields that an application adds."""
    for name, value in entry.items():
        entry[name] = _redact_value(value)
    return entry


def _redact_value(value: Any) -> Any:
    if isinstance(value, str):
        return redact(value)
    if isinstance(value, dict):
        return {name: _redact_value(part) for name, part in value.items()}
    return [_redact_value(part) for part in value] if isinstance(value, list | tuple) else value


def print_unexpected(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """The hook for errors that nobody caught."""
    sys.stderr.write(safe_lines(redact("".join(traceback.format_exception(kind, error, trace)))))
