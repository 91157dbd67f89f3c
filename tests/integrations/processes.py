"""A node to be killed: `python -m tests.integrations.processes DSN NAME KIND DEADLY`.

Its handlers write through the sessions of one kind. The payload DEADLY kills the process with SIGKILL, after the effect and before
the commit; a node with DEADLY 0 lives."""

from __future__ import annotations

import asyncio
import functools
import inspect
import os
import signal
import sys
from typing import Any

from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.orm import Session

from headrace.db import Target
from headrace.node import Headrace, Identity, Node, WorkerSettings
from tests.integrations.conftest import KINDS, Sessions


def build_app(sessions: Sessions, deadly: int) -> Headrace:
    app = Headrace(session=sessions.option)
    handler: Any = sessions.handler

    def die() -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    @functools.wraps(handler)
    async def handle_async(item: Any, session: Any) -> None:
        await handler(item, session)
        if item.payload == deadly:
            if isinstance(session, AsyncSession):
                await session.flush()
            die()

    @functools.wraps(handler)
    def handle(item: Any, session: Any) -> None:
        handler(item, session)
        if item.payload == deadly:
            if isinstance(session, Session):
                session.flush()
            die()

    function = handle_async if inspect.iscoroutinefunction(handler) else handle
    app.consumer("orders", name="effects")(function)
    # A busy machine may let leases end; that must not use up the attempts.
    app.handler("work", attempts=50)(function)
    return app


async def run(dsn: str, name: str, kind: str, deadly: int) -> None:
    app = build_app(KINDS[kind](dsn), deadly)
    node = Node(app, [Target("main", dsn)], identity=Identity(name=name), work=WorkerSettings(lease_s=3.0))
    await node.run()


if __name__ == "__main__":
    asyncio.run(run(sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4])))
