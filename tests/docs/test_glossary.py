"""The glossary has every noun and verb that the command line and the views use."""

from __future__ import annotations

import re

from headrace.cli.program import command_names
from headrace.db.sql_files import sql_files
from tests.docs.guide import DOCS

TEXT = (DOCS / "glossary.md").read_text(encoding="utf-8")
PARTS = TEXT.split("|---|---|\n")[1:]
"""The tables of nouns and of verbs, without their heads."""
ROWS = re.findall(r"^\| ([^|]+?) \| [^|]+\|$", TEXT, re.MULTILINE)
WORDS = {row.lower() for row in ROWS} - {"noun", "verb"}


def words_of(view: str) -> set[str]:
    """The glossary's entries in the name of a view: 'consumer_lag' is 'consumer' and 'lag', or an entry of its own."""
    name = view.replace("_", " ").removesuffix("s") if view == "dead_letters" else view.replace("_", " ")
    if name in WORDS:
        return set()
    parts = name.split(" ")
    pairs = [{" ".join(parts[:place]), " ".join(parts[place:])} for place in range(1, len(parts))]
    return min((pair - WORDS - KNOWN for pair in pairs), key=len, default={name} - KNOWN)


KNOWN = {"history", "due"}
"""Plain words, after a noun."""


def test_every_word_has_one_meaning() -> None:
    for part in PARTS:
        words = [word.lower() for word in re.findall(r"^\| ([^|]+?) \| ", part, re.MULTILINE) if word != "verb"]
        assert words == sorted(set(words))


def test_every_command_is_in_the_glossary() -> None:
    names = {name.replace("-", " ") for name in command_names()}
    assert {name for name in names if name not in WORDS} == set()


def test_every_view_is_named_by_words_of_the_glossary() -> None:
    texts = "\n".join(text for _, text in sql_files("views"))
    views = re.findall(r"^create or replace view headrace\.(\w+)", texts, re.MULTILINE)
    assert len(views) > 40
    # event_0 to event_2 are one view for each table of the outbox.
    names = {view: re.sub(r"_\d$", "", view) for view in views}
    assert {view: missing for view, name in names.items() if (missing := words_of(name))} == {}


def test_an_unknown_word_is_noticed() -> None:
    assert words_of("consumer_gizmo") == {"gizmo"}
