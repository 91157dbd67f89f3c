"""Django's database as headrace needs it: its alias, its psycopg connection, its address."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import psycopg
from django.conf import settings
from django.db import connections
from psycopg import pq
from psycopg.conninfo import make_conninfo

from headrace.core import Invalid
from headrace.db import Connection

if TYPE_CHECKING:
    from django.db.backends.base.base import BaseDatabaseWrapper

    DjangoConnection: TypeAlias = BaseDatabaseWrapper


def database_alias() -> str:
    """The alias of the database with headrace: the setting HEADRACE_DATABASE, else "default"."""
    return str(getattr(settings, "HEADRACE_DATABASE", "default"))


def psycopg_connection(conn: DjangoConnection) -> Connection:
    """The psycopg connection inside a Django connection; it is opened if it is not."""
    if conn.vendor != "postgresql":
        raise Invalid(
            f"database {conn.alias!r} is {conn.vendor}, and headrace runs in PostgreSQL; "
            "name the alias of a PostgreSQL database in the setting HEADRACE_DATABASE"
        )
    conn.ensure_connection()
    raw = conn.connection
    # A pool of psycopg_pool hands out a subclass.
    if not isinstance(raw, psycopg.Connection):
        raise Invalid(
            f"database {conn.alias!r} uses psycopg2, and headrace needs psycopg 3; uninstall psycopg2, Django then uses psycopg 3"
        )
    return raw


def database_dsn(alias: str) -> str:
    """The address of a Django database, with its password, as libpq reads it."""
    conn = connections[alias]
    if conn.vendor != "postgresql":
        psycopg_connection(conn)
    known = {option.keyword.decode() for option in pq.Conninfo.get_defaults()}
    parameters = {
        name: value for name, value in conn.get_connection_params().items() if name in known and value not in (None, "")
    }
    if role := conn.settings_dict.get("OPTIONS", {}).get("assume_role"):
        # Django sends SET ROLE after it has connected. In options, a backslash protects a space.
        escaped = str(role).replace("\\", "\\\\").replace(" ", "\\ ")
        parameters["options"] = f"{parameters.get('options', '')} -c role={escaped}".strip()
    return make_conninfo("", **parameters)
