"""Vacuuming: removes the old versions of erased rows from the tables.

An erasure updates and deletes rows. PostgreSQL keeps their old versions on disk until VACUUM, and autovacuum may not come for months
to a table of which it changed only a few rows. VACUUM frees the space without overwriting it; VACUUM FULL writes the table anew."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import psycopg.sql

from headrace.db import Connection, fetch_value, query

WITNESS = "headrace_internal.erasure"
"""Every erasure changes a row of it more than once, and little else does. If VACUUM leaves old versions here, then an older
transaction is still open, and VACUUM cannot remove those of the other tables either."""


@dataclass(frozen=True)
class VacuumResult:
    """What VACUUM did for some erasures."""

    tables: list[str]
    """Tables without old versions of erased rows now."""
    not_owned: list[str]
    """Tables that this role may not vacuum."""
    is_blocked: bool
    """True if an older transaction is still open: PostgreSQL keeps the old versions until it has ended."""


@dataclass(frozen=True)
class _Table:
    name: str
    oid: int
    schema_name: str
    table_name: str
    may_vacuum: bool


def vacuum_tables(conn: Connection, tables: Sequence[str], *, rewrite: bool) -> VacuumResult:
    """Vacuums these tables, as far as the role may. `rewrite` writes each of them anew (VACUUM FULL), which locks it meanwhile.
    The connection is in autocommit mode. Tables that do not exist any more count as clean."""
    names = sorted({*tables, WITNESS} if tables else (), key=lambda name: name != WITNESS)
    rows = [_Table(*row) for row in conn.execute(query("log/archive/vacuum_rights"), {"tables": names}).fetchall()]
    owned = [row for row in rows if row.may_vacuum]
    for row in owned:
        table = psycopg.sql.Identifier(row.schema_name, row.table_name)
        if rewrite:
            conn.execute(psycopg.sql.SQL("vacuum full {}").format(table))
        # After VACUUM FULL too: only this counts what is left.
        conn.execute(psycopg.sql.SQL("vacuum {}").format(table))
        if row.name == WITNESS and fetch_value(conn, "select pg_catalog.pg_stat_get_dead_tuples(%s::oid)", (row.oid,)):
            return VacuumResult([], [row.name for row in rows if not row.may_vacuum], is_blocked=True)
    not_owned = [row.name for row in rows if not row.may_vacuum]
    return VacuumResult([name for name in names if name not in not_owned], not_owned, is_blocked=False)
