"""Files of test cases in TOML: a list of `[[case]]` tables, each with a name of its own."""

from __future__ import annotations

import tomllib
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import TypeVar

import msgspec

from headrace.core import Invalid

Entry = TypeVar("Entry")
Case = TypeVar("Case")


def load_cases(path: Path, entry: type[Entry], build: Callable[[Entry], Case], error: type[Invalid]) -> tuple[Case, ...]:
    """The cases of a file, in its order: each is read as an `entry`, and then built. Raises `error` naming file and case."""
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8"), parse_float=Decimal)
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as problem:
        raise error(f"{path}: {problem}") from None
    tables = document.get("case")
    if not isinstance(tables, list) or not all(isinstance(table, dict) for table in tables):
        raise error(f"{path}: no [[case]] found; write one per case")
    cases = []
    for number, table in enumerate(tables, 1):
        try:
            cases.append(build(msgspec.convert(table, entry)))
        except (Invalid, ValueError, ArithmeticError) as problem:
            raise error(f"{path}: case {number} ({table.get('name', 'without a name')}): {problem}") from None
    return tuple(cases)
