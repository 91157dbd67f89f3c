"""Ids of events and actions are chosen by their senders: every look-up by one of them names the namespace or the topic, too."""

from __future__ import annotations

import re

import pytest

from headrace.db.sql_files import sql_files
from tests.sql.objects import functions, views

LOOKUP = re.compile(
    r"""\b(?!p_|v_)\w+\.(?:event_id|action_id|output_id)(?:::text)?\s*(?:=|<>|in\b|not\s+in\b)|using\s*\((?:event_id|action_id)\)"""
)
OWNER = re.compile(
    r"""\bnamespace\s*=|\b\w*topic_id\s*=|topic_id\s+is\s+not\s+distinct\s+from|consumer_id\s*=|stream_id\s*="""
    # The log of one topic, by its own name.
    r"""|'log_'\s*\|\||%\d\$I\s+l\b"""
)
ALLOWED = {
    "react_late": "selects from an array of hits of one topic",
}
"""Functions with a statement that needs neither, and why."""


def statements(text: str) -> list[str]:
    """The statements of a text, without comments; those in a function's body, too."""
    return re.sub(r"--[^\n]*", "", text).split(";")


def unowned_lookups(texts: list[tuple[str, str]]) -> dict[str, list[str]]:
    found = {
        name: [" ".join(s.split()) for s in statements(text) if LOOKUP.search(s) and not OWNER.search(s)] for name, text in texts
    }
    return {name: lookups for name, lookups in found.items() if lookups}


def all_texts() -> list[tuple[str, str]]:
    """Functions, views and files of queries, except those of programs that own their database."""
    queries = [(name, text) for name, text in sql_files("queries") if not name.startswith(("demo/", "prove/"))]
    return [*((found.name, found.text) for found in [*functions(), *views()]), *queries]


def test_every_look_up_by_id_names_its_namespace_or_topic() -> None:
    found = unowned_lookups(all_texts())
    assert {name: lookups for name, lookups in found.items() if name not in ALLOWED} == {}
    assert set(ALLOWED) <= set(found), "an exception that is not needed any more"


@pytest.mark.parametrize(
    "statement",
    [
        "select a.error from headrace_internal.attempt a where a.action_id = headrace_internal.uuid_or_null(p_action_id)",
        "update headrace_internal.attempt a set error = '(erased)' where a.action_id = any (v_ids)",
        "select f.action_id from headrace_internal.firing f where f.event_id = any (p_event_ids)",
    ],
)
def test_look_up_by_id_alone_is_found(statement: str) -> None:
    assert unowned_lookups([("new", statement)])
