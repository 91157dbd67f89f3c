"""The rules for names, which the database checks, are explained by the library."""

from __future__ import annotations

import re

from headrace.core.database_errors import NAME_RULES
from headrace.db import Connection


def test_every_rule_for_names_has_an_explanation(conn: Connection) -> None:
    rows = conn.execute(
        """select c.conname, pg_get_constraintdef(c.oid) from pg_constraint c
        where c.connamespace = 'headrace_internal'::regnamespace and c.conname ~ '_(name|event_type|action)_rule$'"""
    ).fetchall()
    assert {name for name, _ in rows} == set(NAME_RULES)
    for name, definition in rows:
        [most] = re.findall(r"at most (\d+) characters", NAME_RULES[name])
        allowed = re.findall(r"\{0,(\d+)\}\$|length\(\w+\) <= (\d+)", definition)[0]
        assert int(most) == (int(allowed[0]) + 1 if allowed[0] else int(allowed[1])), definition
