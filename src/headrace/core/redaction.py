"""Texts without passwords, for logs and messages that others have written."""

from __future__ import annotations

import re

# Greedy up to the last @ of the line: a password may contain an @ or a space that should have been encoded.
_URL = re.compile(r"(postgres(?:ql)?(?:\+\w+)?://[^:/@\s]*:).*@", re.IGNORECASE)
_KEYWORD = re.compile(r"\b((?:ssl)?password\s*=\s*)(?:'(?:[^'\\]|\\.)*'|[^\s&]+)", re.IGNORECASE)


def redact(text: str) -> str:
    """The text with *** in place of the passwords in addresses of databases."""
    return _KEYWORD.sub(r"\1***", _URL.sub(r"\1***@", text))
