"""Loads SQL files of the package."""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import LiteralString


def _root() -> Traversable:
    return files("headrace") / "sql"


@cache
def query(name: str) -> LiteralString:
    """The statement in sql/queries/<name>.sql."""
    return (_root() / "queries" / f"{name}.sql").read_text(encoding="utf-8")


def sql_files(folder: str) -> list[tuple[str, LiteralString]]:
    """Name (without folder and ending) and text of every SQL file below sql/<folder>, in the order of their names."""
    return [(name.removesuffix(".sql"), file.read_text(encoding="utf-8")) for name, file in sorted(_walk(_root() / folder, ""))]


def _walk(folder: Traversable, prefix: str) -> list[tuple[str, Traversable]]:
    found: list[tuple[str, Traversable]] = []
    for entry in folder.iterdir():
        if entry.is_dir():
            found.extend(_walk(entry, f"{prefix}{entry.name}/"))
        elif entry.name.endswith(".sql"):
            found.append((prefix + entry.name, entry))
    return found
