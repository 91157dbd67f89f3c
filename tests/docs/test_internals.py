"""The pages of docs/internals name files, functions and SQL functions that exist."""

from __future__ import annotations

import re
from collections.abc import Iterator
from importlib import import_module
from operator import attrgetter
from pathlib import Path

import pytest

from headrace.db.sql_files import sql_files

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src/headrace"
PAGES = sorted((ROOT / "docs/internals").rglob("*.md"))
CODE = re.compile(r"`([^`\n]+)`")
PATH = re.compile(r"(?:[\w.-]+|\*)(?:/(?:[\w.-]+|\*))*(?:/|\.(?:py|sql|md|toml|html|yml|j2|css))")
PYTHON = re.compile(r"([a-z_][\w.]*):(\w+(?:\.\w+)*)(?:\(.*\))?")
SQL = re.compile(r"(headrace(?:_internal)?\.[a-z_]+)(?:\(.*\))?")
PLACES = ("src", "tests", "docs", "bench", "examples", "scripts", ".github")


def missing(text: str) -> Iterator[str]:
    """The names in backticks that lead nowhere. A path is one of the repository, or of src/headrace, and a file without a folder may be
    anywhere; `module:name` is one of headrace. NNNN stands for a number."""
    sql = "\n".join(text for kind in ("tables", "functions", "views") for _, text in sql_files(kind))  # type: ignore[arg-type]
    for name in CODE.findall(text):
        if PATH.fullmatch(name):
            root = ROOT if name.startswith(PLACES) else PACKAGE
            exists = "NNNN" in name or any(
                root.glob(name) if "/" in name else map(ROOT.glob, (f"src/**/{name}", f"tests/**/{name}", name))
            )
        elif found := PYTHON.fullmatch(name):
            exists = has_attribute(*found.groups())
        elif found := SQL.fullmatch(name):
            exists = re.search(rf"^create .*\b{re.escape(found[1])}\b", sql, re.MULTILINE) is not None or has_attribute(
                "", found[1]
            )
        else:
            continue
        if not exists:
            yield name


def has_attribute(module: str, name: str) -> bool:
    """Is `log.outbox` + `publish` there, or a module such as headrace.rules?"""
    try:
        if not module:
            return bool(import_module(name))
        attrgetter(name)(import_module(f"headrace.{module}"))
    except (ImportError, AttributeError):
        return False
    return True


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_file_and_function_on_the_page_exists(page: Path) -> None:
    assert list(missing(page.read_text(encoding="utf-8"))) == []


def test_every_page_is_linked_from_the_index() -> None:
    index = (ROOT / "docs/internals/index.md").read_text(encoding="utf-8")
    folder = ROOT / "docs/internals"
    assert [page.name for page in PAGES if page.name != "index.md" and f"]({page.relative_to(folder)})" not in index] == []


def test_rooms_in_contributing_are_the_folders_of_the_code() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    lines = re.findall(r"^      ((?:\w+/ ?)+)(.*)$", text, re.MULTILINE)
    listed = {room for rooms, _ in lines for room in re.findall(r"\w+", rooms)}
    assert listed == {path.parent.name for path in PACKAGE.glob("*/__init__.py")}
    inside = [(rooms.partition("/")[0], folder) for rooms, text in lines for folder in re.findall(r"(\w+)/", text)]
    assert [pair for pair in inside if not (PACKAGE / pair[0] / pair[1]).is_dir()] == []


def test_checker_finds_what_does_not_exist() -> None:
    good = "`log/sql/tables.sql`, `rules/sql/functions/*.sql`, `log.outbox:publish`, `headrace.publish`, `headrace_internal.log`, `log/`"
    bad = ["log/nowhere.sql", "rules/*/none.py", "log.outbox:gone", "log.gone:publish", "headrace.gone", "gone/"]
    assert list(missing(good)) == []
    assert list(missing(f"{good} {' '.join(f'`{name}`' for name in bad)}")) == bad
