"""Loads SQL files of the package."""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import LiteralString


def package_sql() -> Traversable:
    """The folder of the package's SQL files."""
    return files("headrace") / "sql"


@cache
def query(name: str) -> LiteralString:
    """The statement in sql/queries/<name>.sql."""
    return (package_sql() / "queries" / f"{name}.sql").read_text(encoding="utf-8")


def sql_files(folder: Traversable) -> list[tuple[str, LiteralString]]:
    """Name (without ending) and text of every SQL file below a folder, in the order of their names; none when it is missing."""
    return [(name.removesuffix(".sql"), file.read_text(encoding="utf-8")) for name, file in sorted(_walk(folder, ""))]


def _walk(folder: Traversable, prefix: str) -> list[tuple[str, Traversable]]:
    if not folder.is_dir():
        return []
    files_below: list[tuple[str, Traversable]] = []
    for entry in folder.iterdir():
        if entry.is_dir():
            files_below.extend(_walk(entry, f"{prefix}{entry.name}/"))
        elif entry.name.endswith(".sql"):
            files_below.append((prefix + entry.name, entry))
    return files_below
