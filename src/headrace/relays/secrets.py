"""Secrets: options of a relay refer to them by `env:NAME` or `file:name`, and the node that runs the relay reads them.

Promises: the value of a secret is in no table, message, log or repr. Whoever may write relays cannot read what else the node can, nor
what belongs to another namespace: the namespace is part of the variable's and of the file's name, as for hooks."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from typing import Final

from headrace.core import JSON, Invalid, InvalidRelay, parse_reference, read_secret

_secret_name: Final = re.compile(r"(?i)secret|password|passwd|token|credential|apikey|api_key|authorization")
_password_in_address: Final = re.compile(r"://[^/@\s]*:[^/@\s]+@|\bpassword\s*=", re.IGNORECASE)


class Secrets(dict[str, str]):
    """The values of secrets by option; those of a list by `option.0`, `option.1` and so on."""

    def __repr__(self) -> str:
        return f"Secrets({', '.join(self)})"


def check_references(options: Mapping[str, JSON]) -> list[str]:
    """What is wrong with the options as far as secrets are concerned: one that is there in clear text, or cannot be referred to."""
    problems: list[str] = []
    for option, text in _texts(options):
        if _is_reference(text):
            try:
                parse_reference(text)
            except Invalid as error:
                problems.append(f"option {option!r}: {error}")
        elif _secret_name.search(option) or _password_in_address.search(text):
            problems.append(f"option {option!r} has a secret in clear text; refer to it by env:NAME or file:name")
    return problems


def resolve_secrets(options: Mapping[str, JSON], namespace: str, environ: Mapping[str, str] = os.environ) -> Secrets:
    """The secrets of a namespace that options refer to. Raises InvalidRelay for one that the node does not have."""
    secrets = Secrets()
    for option, text in _texts(options):
        if _is_reference(text):
            try:
                secrets[option] = read_secret(text, namespace, environ)
            except Invalid as error:
                raise InvalidRelay(f"{option}: {error}") from None
    return secrets


def _is_reference(text: str) -> bool:
    return text.startswith(("env:", "file:"))


def _texts(options: Mapping[str, JSON]) -> list[tuple[str, str]]:
    texts: list[tuple[str, str]] = []
    for option, value in options.items():
        if isinstance(value, str):
            texts.append((option, value))
        elif isinstance(value, Sequence):
            texts += [(f"{option}.{index}", part) for index, part in enumerate(value) if isinstance(part, str)]
        elif isinstance(value, Mapping):
            texts += [(f"{option}.{name}", part) for name, part in value.items() if isinstance(part, str)]
    return texts
