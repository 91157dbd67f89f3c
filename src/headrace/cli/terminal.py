"""Text of others on the operator's terminal.

Keys, producers, payloads and errors come from whoever publishes. Control characters in them could move the cursor, change the
title or the clipboard, and forge lines; bidirectional overrides could reorder what is read. Here they become visible escapes."""

from __future__ import annotations

import json
import re
import sys
import traceback
from collections.abc import Iterable, MutableMapping
from types import TracebackType
from typing import Any

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment

from headrace.core import redact

# All control characters; line and paragraph separators; invisible and bidirectional formatting except the joiners, which scripts and
# emoji need; halves of surrogate pairs; tags.
_UNSAFE = (
    r"\x00-\x09\x0b-\x1f\x7f-\x9f\xad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ud800-\udfff\ufeff\ufff9-\ufffb"
    r"\U000e0000-\U000e007f"
)
_UNSAFE_IN_LINES = re.compile(f"[{_UNSAFE}]")
_UNSAFE_IN_LINE = re.compile(f"[{_UNSAFE}\n]")


def safe_line(text: str) -> str:
    """One line: control characters, line breaks too, as escapes such as \\x1b."""
    return _UNSAFE_IN_LINE.sub(_escape, text)


def safe_lines(text: str) -> str:
    """The same, but line breaks stay."""
    return _UNSAFE_IN_LINES.sub(_escape, text)


def safe_json(document: str) -> str:
    """The same JSON value: what a terminal could act on is written as \\u escapes. Such characters occur only inside strings."""
    return _UNSAFE_IN_LINES.sub(lambda match: json.dumps(match[0])[1:-1], document)


def _escape(match: re.Match[str]) -> str:
    code = ord(match[0])
    if match[0] in "\t\n\r":
        return {"\t": "\\t", "\n": "\\n", "\r": "\\r"}[match[0]]
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


class SafeConsole(Console):
    """A console whose texts are safe; its own colours and cursor movements are not text and stay."""

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        for segment in super().render(renderable, options):
            if segment.control or not _UNSAFE_IN_LINES.search(segment.text):
                yield segment
            else:
                yield Segment(safe_lines(segment.text), segment.style)


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
