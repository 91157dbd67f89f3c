"""Views of a connection, and the private attributes of psycopg and asyncpg that they need."""

from __future__ import annotations

import re
from pathlib import Path

import asyncpg
import psycopg
import pytest
from psycopg.adapt import AdaptersMap

import headrace
from headrace.db import AsyncView, Connection, SyncView, create_view, views


@pytest.mark.lane("pg18")
def test_psycopg_has_the_private_attributes_that_we_use(conn: Connection) -> None:
    view = create_view(SyncView, conn)
    assert view.autocommit is True
    adapters = AdaptersMap(conn.adapters)
    views.set_adapters(view, adapters)
    assert view.adapters is not conn.adapters and view.adapters.types is not None
    assert callable(conn._prepared.clear)


@pytest.mark.lane("pg18")
async def test_transaction_that_is_entered_without_psycopg_cannot_be_committed_by_a_handler(conn: Connection) -> None:
    view = create_view(AsyncView, conn)
    views.enter_transaction(view)
    with pytest.raises(psycopg.ProgrammingError):
        await view.commit()
    views.leave_transaction(view)
    await view.commit()


def test_asyncpg_has_the_private_attributes_that_we_use() -> None:
    assert callable(asyncpg.Connection._cancel)


def test_no_other_file_uses_private_attributes_of_drivers() -> None:
    folder = Path(headrace.__file__).parent
    users = {
        str(path.relative_to(folder))
        for path in folder.rglob("*.py")
        if re.search(r"\b(?:conn|view|driver)\._[a-z]\w*|\"_con\"", path.read_text())
    }
    assert users == {"db/views.py"}


@pytest.mark.lane("pg18")
@pytest.mark.parametrize("view_class", [SyncView, AsyncView])
def test_owner_gets_its_notices_while_a_view_does_not_use_the_connection(
    conn: Connection, view_class: type[SyncView | AsyncView]
) -> None:
    notices: list[str | None] = []
    conn.add_notice_handler(lambda diagnostic: notices.append(diagnostic.message_primary))
    view = create_view(view_class, conn)
    conn.execute("do $$ begin raise notice 'a'; end $$")
    view.take_handlers()
    conn.execute("do $$ begin raise notice 'b'; end $$")
    view.give_back_handlers()
    conn.execute("do $$ begin raise notice 'c'; end $$")
    assert notices == ["a", "c"]
