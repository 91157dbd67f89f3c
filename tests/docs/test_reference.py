"""The reference pages in docs/reference say what the code says."""

from __future__ import annotations

import difflib
import re
import runpy
from pathlib import Path

import pytest

from headrace.cli.options import ENVIRONMENT, SQL
from headrace.core import HeadraceError

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src/headrace"
REFERENCE = ROOT / "docs/reference"


def sources(pattern: str) -> str:
    paths = sorted(SOURCE.rglob(pattern))
    # The settings table itself proves nothing.
    return "\n".join(path.read_text(encoding="utf-8") for path in paths if path.name != "settings.py")


@pytest.fixture(scope="module")
def pages() -> dict[Path, str]:
    return runpy.run_path(str(ROOT / "docs/generate.py"))["pages"]()


def test_pages_are_not_stale(pages: dict[Path, str]) -> None:
    differences = [
        line
        for path, text in pages.items()
        for line in difflib.unified_diff(path.read_text(encoding="utf-8").splitlines(), text.splitlines(), path.name, lineterm="")
    ]
    assert differences == [], "run: python docs/generate.py\n" + "\n".join(differences[:30])


def test_every_generated_page_is_in_the_folder(pages: dict[Path, str]) -> None:
    assert {path for path in pages if path.suffix == ".md"} == {*REFERENCE.glob("*.md"), ROOT / "docs/adr/README.md"}


def test_links_inside_a_page_lead_to_a_heading() -> None:
    def anchor(heading: str) -> str:
        return re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-")

    for path in REFERENCE.glob("*.md"):
        text = path.read_text(encoding="utf-8")
        anchors = {anchor(heading) for heading in re.findall(r"^#+ (.+)$", text, re.MULTILINE)}
        links = {link.replace("%20", "-").replace(" ", "-") for link in re.findall(r"\]\(#([^)]+)\)", text)}
        assert links - anchors == set(), path.name


def test_every_environment_variable_that_is_read_is_listed() -> None:
    read = set(re.findall(r"""environ(?:\.get|\.setdefault)?[\[(]["']([A-Z][A-Z0-9_]+)["']""", sources("*.py")))
    read |= set(re.findall(r"""envvar=["']([A-Z_]+)["']""", sources("*.py")))
    read |= set(re.findall(r"""["'](HEADRACE_[A-Z_]+)["']""", sources("*.py")))
    of_others = {"HEADRACE_DATABASE", "HOME"}
    assert read - of_others - {setting.name for setting in ENVIRONMENT} == set()


def test_every_sql_setting_that_is_read_is_listed() -> None:
    read = set(re.findall(r"current_setting\('(headrace\.\w+)'", sources("*.sql")))
    assert read == {setting.name for setting in SQL}


def test_every_listed_variable_is_used() -> None:
    text = sources("*.py")
    assert [setting.name for setting in ENVIRONMENT if f'"{setting.name}"' not in text] == []


def test_every_sql_object_of_the_public_schema_is_on_the_page() -> None:
    objects = re.findall(r"^create (?:or replace )?(function|table|view) headrace\.(\w+)", sources("*.sql"), re.MULTILINE)
    headings = set(re.findall(r"^### (.+)$", (REFERENCE / "sql.md").read_text(encoding="utf-8"), re.MULTILINE))
    assert {name if kind == "function" else f"{kind} {name}" for kind, name in objects} == headings


def test_every_error_is_on_the_page_with_its_code() -> None:
    def tree(error: type[HeadraceError]) -> list[type[HeadraceError]]:
        return [error, *(descendant for child in error.__subclasses__() for descendant in tree(child))]

    page = (REFERENCE / "errors.md").read_text(encoding="utf-8")
    ours = [error for error in tree(HeadraceError) if error.__module__ == "headrace.core.errors"]
    assert [error.__name__ for error in ours if f"| `{error.__name__}` | {error.exit_code} |" not in page] == []
