"""SQL files: every room has its own, in a folder `sql` beside its Python.

    tables.sql          its tables as they are now
    functions/*.sql     its functions, in files named after nouns; a function stands behind those that it calls
    views.sql           its views; a view stands behind those that it reads
    queries.sql         the statements that its Python runs, each below a line `-- name: …` and found by `query`
    migrations/*.sql    only in db: numbered steps from the tables of one release to those of the next

Functions are always in the folder, also where a room has few. The functions of `core` use no tables, so tables may use them."""

from __future__ import annotations

import re
from functools import cache
from hashlib import sha256
from importlib.metadata import version
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Literal, LiteralString, TypeAlias, get_args

from headrace.core import select_events

ROOMS = (
    "core",
    "db",
    "log",
    "consume",
    "definitions",
    "definitions/schemas",
    "rules",
    "actions",
    "correlators",
    "schedules",
    "relays",
    "relays/targets",
    "log/archive",
    "spark",
    "observe",
    "observe/doctor",
    "node",
    "web/http",
    "web/console",
    "testing",
    "demo",
    "prove",
)
"""The rooms that have SQL, in the order in which their tables are created: a table stands behind those that it refers to."""

Kind: TypeAlias = Literal["functions", "migrations", "queries", "tables", "views"]

_NAME = re.compile(r"^-- name: (\w+)\n", re.MULTILINE)
_EVENT = re.compile(r"\{(event|stored) (\w+)( as text)?\}")


def package_folder() -> Traversable:
    """The folder that holds the rooms."""
    return files("headrace")


def sql_files(kind: Kind, root: Traversable | None = None) -> list[tuple[str, LiteralString]]:
    """Name and text of every file of a kind, in the order of the rooms: ("log/functions/publish", …), ("log/views", …). `root` is
    the folder that holds the rooms, ours by default."""
    texts: list[tuple[str, LiteralString]] = []
    for room in ROOMS:
        folder = (root or package_folder()) / room / "sql"
        names = {entry.name for entry in (folder / kind).iterdir()} if (folder / kind).is_dir() else set()
        paths = [f"{kind}/{name}" for name in sorted(names) if name.endswith(".sql")] or [f"{kind}.sql"]
        texts += [(f"{room}/{path.removesuffix('.sql')}", _read(folder / path)) for path in paths if (folder / path).is_file()]
    return texts


@cache
def query(name: str) -> LiteralString:
    """A statement of a room: "rules/shapes" is the one below `-- name: shapes` in rules/sql/queries.sql.

    `{event e}` in it stands for the columns of an event, `{stored e}` for those of a log, and `{stored e as text}` for the same with
    JSON as text: see headrace.core.select_events."""
    room, _, statement = name.rpartition("/")
    statements = _statements(room)
    if statement not in statements:
        known = ", ".join(statements) or "no statements"
        raise LookupError(f'there is no statement "{statement}" in {room}/sql/queries.sql, which has {known}')
    return statements[statement]


@cache
def _statements(room: str) -> dict[str, LiteralString]:
    """The named statements of a room."""
    file = package_folder() / room / "sql" / "queries.sql"
    if not file.is_file():
        return {}
    _, *parts = _NAME.split(_read(file))
    return {name: f"{_EVENT.sub(_select_list, text).strip()}\n" for name, text in zip(parts[::2], parts[1::2], strict=True)}


def _select_list(marker: re.Match[LiteralString]) -> str:
    return select_events(marker[2], stored=marker[1] == "stored", as_text=marker[3] is not None)


def schema_checksum() -> str:
    """A checksum of everything that a migration of this release applies: two databases with the same one have the same schema."""
    parts = [part for kind in get_args(Kind) for file in sql_files(kind) for part in file]
    return sha256("\0".join([version("headrace"), version("pgmq"), *parts]).encode()).hexdigest()


def _read(file: Traversable) -> LiteralString:
    return file.read_text(encoding="utf-8")
