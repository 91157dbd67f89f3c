"""Secrets: options of a relay refer to them by `env:RELAY_NAME` or `file:/path`, and the node that runs the relay reads them.

Promises: the value of a secret is in no table, message, log or repr. Whoever may write relays cannot read what else the node can:
only variables that start with RELAY_, and files below the folder of secrets, are read."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from headrace.core import JSON, InvalidRelay

PREFIX: Final = "RELAY_"
FOLDER_VARIABLE: Final = "HEADRACE_RELAY_SECRETS"
FOLDER: Final = "/run/secrets/relays"
FILE_BYTES_MAX: Final = 65_536

_reference: Final = re.compile(r"(env|file):(.+)", re.DOTALL)
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
        reference = _reference.fullmatch(text)
        if reference is None:
            if _secret_name.search(option) or _password_in_address.search(text):
                problems.append(f"option {option!r} has a secret in clear text; refer to it by env:{PREFIX}NAME or file:/path")
        elif reference[1] == "env" and not reference[2].startswith(PREFIX):
            problems.append(
                f"option {option!r}: nodes read only variables that start with {PREFIX}, not {reference[2]}; rename it"
            )
    return problems


def resolve_secrets(options: Mapping[str, JSON], environ: Mapping[str, str] = os.environ) -> Secrets:
    """The secrets that options refer to. Raises InvalidRelay for one that the node does not have or may not read."""
    return Secrets(
        (option, _read(option, reference[1], reference[2], environ))
        for option, text in _texts(options)
        if (reference := _reference.fullmatch(text))
    )


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


def _read(option: str, kind: str, name: str, environ: Mapping[str, str]) -> str:
    if kind == "env":
        if not name.startswith(PREFIX):
            raise InvalidRelay(f"{option}: nodes read only variables that start with {PREFIX}, not {name}")
        if not environ.get(name):
            raise InvalidRelay(f"{option}: the node has no variable {name}; set it where the node runs")
        return environ[name]
    folder = Path(environ.get(FOLDER_VARIABLE) or FOLDER).resolve()
    path = (folder / name).resolve()
    if not path.is_relative_to(folder):
        raise InvalidRelay(f"{option}: {name} is not below {folder}, the folder of secrets; see {FOLDER_VARIABLE}")
    try:
        if path.stat().st_size > FILE_BYTES_MAX:
            raise InvalidRelay(f"{option}: the file {name} has more than {FILE_BYTES_MAX} bytes")
        return path.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidRelay(f"{option}: the file {name} cannot be read: {type(error).__name__}") from None
