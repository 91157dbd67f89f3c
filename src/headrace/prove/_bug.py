"""Seeded bugs: mistakes that others have made, planted on purpose, so that the checker is seen to catch them.

They are switches of the checker alone: a bug replaces a function in the database of one run, or a method in the processes of one
run. The product has no line for them."""

from __future__ import annotations

from headrace.db import Connection


def plant_in_node(name: str) -> None:
    """Plants a bug in this process, where it is one of the node."""


def plant_in_database(conn: Connection, name: str | None) -> None:
    """Plants a bug in the database of this run, where it is one of the database."""


def server_settings(name: str | None) -> dict[str, str]:
    """Settings of the server that belong to a bug."""
    return {}
