"""The decisions are numbered without holes, one page each, and all of them are in the index."""

from __future__ import annotations

import re
from pathlib import Path

FOLDER = Path(__file__).parents[2] / "docs/adr"
PAGES = sorted(FOLDER.glob("[0-9]*.md"))


def test_numbers_have_no_holes() -> None:
    assert [page.name[:4] for page in PAGES] == [f"{number:04}" for number in range(1, len(PAGES) + 1)]


def test_titles_begin_with_the_number_of_the_file() -> None:
    assert [page.name for page in PAGES if not re.match(rf"# {page.name[:4]} \w", page.read_text())] == []


def test_every_decision_is_one_page_with_a_room_and_a_status() -> None:
    texts = {page.name: page.read_text() for page in PAGES}
    assert [name for name, text in texts.items() if len(text.splitlines()) > 60] == []
    assert [name for name, text in texts.items() if not re.search(r"^Room: \w+\n\nStatus: \w", text, re.MULTILINE)] == []


def test_every_decision_that_is_named_exists() -> None:
    numbers = {page.name[:4] for page in PAGES}
    status = {page.name: re.findall(r"^Status:.*$", page.read_text(), re.MULTILINE)[0] for page in PAGES}
    assert {name: line for name, line in status.items() if set(re.findall(r"\b\d{4}\b", line)) - numbers} == {}


def test_index_lists_every_decision_once_by_room_and_a_dozen_to_read_first() -> None:
    first, by_room = (FOLDER / "README.md").read_text().split("## Read these first")[1].split("\n## ", 1)
    assert sorted(re.findall(r"\]\(([\w-]+\.md)\)", by_room)) == [page.name for page in PAGES]
    assert len(re.findall(r"\]\(([\w-]+\.md)\)", first)) == 12
