"""Calling handlers: async functions on the loop, plain functions in a thread, both in the same open transaction."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, cast
from weakref import WeakKeyDictionary

import psycopg
from psycopg.types.json import set_json_loads

from headrace.consume._consumer import Handler
from headrace.core import LoggedEvent, decode
from headrace.db import AsyncConnection, Connection

_faces: WeakKeyDictionary[AsyncConnection, Connection] = WeakKeyDictionary()


async def call(handler: Handler, given: LoggedEvent | Sequence[LoggedEvent], conn: AsyncConnection) -> None:
    """Runs a handler with an event, or a batch of them, and the transaction that is open on the connection."""
    if asyncio.iscoroutinefunction(handler):
        await cast(Any, handler)(given, conn)
    else:
        await asyncio.to_thread(cast(Any, handler), given, plain_face(conn))


def plain_face(conn: AsyncConnection) -> Connection:
    """The same connection, and so the same transaction, with psycopg's plain interface.

    Safe because only one side works at a time: the loop waits for the thread."""
    face = _faces.get(conn)
    if face is None:
        face = psycopg.Connection(conn.pgconn)
        set_json_loads(decode, face)
        # Both faces number the statements they prepare from 0 on, and the server knows only one of each name.
        face.prepare_threshold = None
        _faces[conn] = face
    return face
