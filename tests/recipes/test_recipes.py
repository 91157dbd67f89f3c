"""The recipes of docs/internals name every file that changes: each listed file names a sibling of the new thing, and no other file does."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src/headrace"
RECIPES = ROOT / "docs/internals/recipes"
_ROW = re.compile(r"^\| `([^`]+)`", re.MULTILINE)
_CODE = re.compile(r"`([^`\n]+\.(?:py|sql|html))`")


def section(recipe: str, heading: str = "") -> str:
    """A recipe, or the part of it below a heading."""
    text = (RECIPES / f"{recipe}.md").read_text(encoding="utf-8")
    return re.split(r"^## ", text.split(f"## {heading}", 1)[1], maxsplit=1, flags=re.MULTILINE)[0] if heading else text


def listed(recipe: str, heading: str = "") -> set[str]:
    """The files of src in the tables of a recipe."""
    return {name for name in _ROW.findall(section(recipe, heading)) if (PACKAGE / name).is_file()}


def naming(pattern: str, *, under: str = "") -> set[str]:
    """The files of src whose text has the pattern."""
    return {name for name, text in sources(under) if re.search(pattern, text)}


def sources(under: str) -> Iterator[tuple[str, str]]:
    for path in (PACKAGE / under).rglob("*"):
        if path.suffix in (".py", ".sql", ".html"):
            yield path.relative_to(PACKAGE).as_posix(), path.read_text(encoding="utf-8")


def test_relay_target_is_four_files_of_a_package_or_two_of_ours() -> None:
    files = _ROW.findall(section("relay-target"))
    package = {name for name in files if name.startswith("examples/")}
    folder = ROOT / "examples/relay_target_file"
    existing = {path for path in folder.rglob("*") if path.is_file() and "__pycache__" not in path.parts}
    assert {ROOT / name for name in package} == existing and len(package) <= 4
    assert naming(r"targets\.redis\b|\b(?:import|from) redis\b", under="relays") == listed("relay-target")


def test_function_of_conditions_is_named_in_the_listed_files_only() -> None:
    files = listed("condition-operator", "A function")
    assert naming(r'"starts_with"', under="lang") == files and len(files) <= 10
    assert naming(r'"starts_with"') == files


def test_operator_with_a_node_is_named_in_the_listed_files_only() -> None:
    files = listed("condition-operator", "An operator")
    nodes = naming(r"\btree\.Like\b|\bLike\(|^    Like,|\bclass Like\b|\| Like \|")
    assert nodes | {"lang/condition/parser.py"} == files and len(files) <= 10
    assert files == {name for name in files if re.search("like", (PACKAGE / name).read_text(encoding="utf-8"), re.IGNORECASE)}


def test_page_of_the_console_is_known_to_the_listed_files_only() -> None:
    files, page = listed("console-page"), "http_in"
    own = {name for name, _ in sources("web/console") if page in name}
    assert f"web/console/pages/{page}.py" in own
    known = naming(rf"^    {page},$|import .*\b{page}\b|/hooks\"|/access-tokens\"", under="web/console") - own
    assert known == {"web/console/app.py"} <= files and len(files) <= 5


def test_columns_of_events_are_repeated_in_the_files_of_the_recipe_only() -> None:
    names = r"(?:\W+(?:\w+\.)?)"
    repeated = rf"headers{names}emitted_at{names}(?:appended_at{names})?producer|payload{names}headers{names}producer"
    named = set(_CODE.findall(section("event-column")))
    files = listed("event-column")
    assert len(files) <= 12 and files == {name for name in files if "producer" in (PACKAGE / name).read_text(encoding="utf-8")}
    # The workload of `headrace prove` is one publisher of many.
    assert {name for name in naming(repeated) if not name.startswith("prove/")} <= named
