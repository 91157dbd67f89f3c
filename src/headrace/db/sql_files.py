"""Loads the SQL files of the package."""

from __future__ import annotations

from functools import cache
from hashlib import sha256
from importlib.metadata import version
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import LiteralString


def package_sql() -> Traversable:
    """The folder with the package's SQL files."""
    return files("headrace") / "sql"


@cache
def query(name: str) -> LiteralString:
    """The statement in sql/queries/<name>.sql."""
    return (package_sql() / "queries" / f"{name}.sql").read_text(encoding="utf-8")


def sql_files(folder: Traversable, prefix: str = "") -> list[tuple[str, LiteralString]]:
    """Name (without suffix) and text of every SQL file below a folder, ordered by name; none if the folder is missing."""
    texts: list[tuple[str, LiteralString]] = []
    for entry in folder.iterdir() if folder.is_dir() else ():
        if entry.is_dir():
            texts += sql_files(entry, f"{prefix}{entry.name}/")
        elif entry.name.endswith(".sql"):
            texts.append((prefix + entry.name.removesuffix(".sql"), entry.read_text(encoding="utf-8")))
    return sorted(texts)


def schema_checksum() -> str:
    """A checksum of everything that a migration of this release applies: two databases with the same one have the same schema."""
    parts = [version("headrace"), version("pgmq"), *(part for file in sql_files(package_sql()) for part in file)]
    return sha256("\0".join(parts).encode()).hexdigest()
