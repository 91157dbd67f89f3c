"""Functions of the database, as text: seeded bugs and failpoints change them in the database of one run."""

from __future__ import annotations

import re

from headrace.core import Invalid
from headrace.db import Connection

_DEFINITION = """
select pg_get_functiondef(p.oid)
from pg_proc p join pg_namespace n on n.oid = p.pronamespace
where n.nspname in ('headrace', 'headrace_internal') and p.proname = %s
"""
_COMMENT = re.compile(r"^\s*--.*\n", re.MULTILINE)


def function_definition(conn: Connection, name: str) -> str:
    """The definition of headrace's function of this name, in either schema."""
    rows = conn.execute(_DEFINITION, (name,)).fetchall()
    if len(rows) != 1:
        raise Invalid(f"headrace has {len(rows)} functions {name!r}; the checker needs exactly one")
    return str(rows[0][0])


def replace_code(definition: str, old: str, new: str) -> str:
    """Replaces a piece of code in a function. Comment lines and white space do not matter. Raises Invalid if it is not there."""
    pattern = re.compile(r"\s+".join(re.escape(word) for word in old.split()))
    text, count = pattern.subn(lambda _: new, _COMMENT.sub("", definition))
    if not count:
        raise Invalid(f"the function has changed: it does not contain {old[:60]!r} any more; adapt the seeded bug")
    return text
