"""Untrusted text as text that is safe to show: on a terminal, in a web page.

Keys, producers, payloads and errors come from whoever publishes. Control characters in them could move the cursor of a terminal and
forge lines; bidirectional overrides could reorder what is read. Here they become visible escapes."""

from __future__ import annotations

import json
import re

# These are all control characters; line and paragraph separators; invisible and bidirectional formatting except the joiners, which
# scripts and emoji need; halves of surrogate pairs; tags.
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


def error_text(error: BaseException) -> str:
    """The message of an error, even if its class cannot build it."""
    try:
        return str(error).strip()
    except BaseException as problem:  # noqa: BLE001 - code of whoever wrote the class; the error that is reported counts
        return f"(its text cannot be made: {type(problem).__name__})"


def _escape(match: re.Match[str]) -> str:
    code = ord(match[0])
    if match[0] in "\t\n\r":
        return {"\t": "\\t", "\n": "\\n", "\r": "\\r"}[match[0]]
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


# Greedy up to the last @ of the line: a password may contain an @ or a space that should have been encoded.
_URL = re.compile(r"(postgres(?:ql)?(?:\+\w+)?://[^:/@\s]*:).*@", re.IGNORECASE)
_KEYWORD = re.compile(r"\b((?:ssl)?password\s*=\s*)(?:'(?:[^'\\]|\\.)*'|[^\s&]+)", re.IGNORECASE)


def redact(text: str) -> str:
    """The text with *** in place of the passwords in addresses of databases."""
    return _KEYWORD.sub(r"\1***", _URL.sub(r"\1***@", text))
