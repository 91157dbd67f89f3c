"""The functions and views that the SQL files define, each with its header and text."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache

from headrace.db.sql_files import Kind, sql_files

OBJECT = re.compile(r"^\s*create or replace (?:function|aggregate|view)\s+(\w+)\.(\w+)", re.MULTILINE)
_BLOCK = re.compile(r"\n\n(?=-- )")
_CALLS = re.compile(r"^-- Calls: ([^.]*)\.$", re.MULTILINE)
_CALL = re.compile(r"(?<!default )\bheadrace(?:_internal)?\.(\w+)\(")
# What the text of an error tells the user to call is no call.
_MESSAGE = re.compile(r"\braise (?:exception|warning|notice|log)\b.*?;\n", re.DOTALL)
_UNNAMED = re.compile(r"clock|authorize\w*")
"""Nearly every function calls these; headers leave them out."""


@dataclass(frozen=True)
class SqlObject:
    """A function or view: its header, and its text without the header."""

    file: str
    schema: str
    name: str
    header: str
    text: str

    @classmethod
    def from_text(cls, file: str, block: str) -> SqlObject:
        header = re.match(r"(?:--[^\n]*\n)*", block)
        names = dict.fromkeys(OBJECT.findall(block))
        assert header and len(names) == 1, f"{file}: a header and a blank line before it must separate {list(names)}"
        [(schema, name)] = names
        return cls(file, schema, name, header[0], block[len(header[0]) :])

    @property
    def stated_calls(self) -> set[str]:
        """The functions that the header names."""
        stated = _CALLS.search(self.header)
        return set(re.findall(r"\w+", stated[1])) if stated else set()


def calls_of(function: SqlObject, known: set[str]) -> set[str]:
    """The functions of ours that the text calls."""
    text = _MESSAGE.sub("", re.sub(r"--[^\n]*", "", function.text))
    return {name for name in _CALL.findall(text) if name in known and name != function.name and not _UNNAMED.fullmatch(name)}


def functions() -> list[SqlObject]:
    return _objects("functions")


def views() -> list[SqlObject]:
    return _objects("views")


@cache
def _objects(kind: Kind) -> list[SqlObject]:
    blocks = [(name, block) for name, text in sql_files(kind) for block in _BLOCK.split(text)]
    return [SqlObject.from_text(name, block) for name, block in blocks if OBJECT.search(block)]
