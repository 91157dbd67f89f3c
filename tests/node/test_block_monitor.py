"""A handler that blocks the event loop is named in the log, with the time and the line, once a minute."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from typing import Any

import pytest

from headrace import Action, Headrace, Node
from headrace.db import Connection, Target
from headrace.node.event_loop import QUIET_S, BlockMonitor, handler_codes
from tests.builders import fill, topic

BLOCK_S = 0.7


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.name == "headrace.node.event_loop"]


def block() -> None:
    time.sleep(BLOCK_S)


async def test_blocking_handlers_are_named(conn: Connection, database: Target, caplog: pytest.LogCaptureFixture) -> None:
    topic(conn)
    app = Headrace()
    threads: list[int] = []

    @app.consumer("orders", name="billing", timeout_s=60)
    async def billing(event: Any, tx: Any) -> None:
        block()

    @app.handler("MAIL")
    def mail(action: Action, tx: Any) -> None:  # In a thread: it blocks nobody.
        threads.append(threading.get_ident())
        block()

    fill(conn, 2)
    conn.execute("select headrace.send_action('MAIL')")
    node = Node(app, [database])
    running = asyncio.create_task(node.run())
    async with asyncio.timeout(30):
        while node.handled < 2 or node.actions < 1:
            await asyncio.sleep(0.01)
    node.stop()
    await running
    assert threads != [threading.get_ident()]
    [warning] = warnings(caplog)  # One a minute, although it blocked twice.
    assert warning.startswith("consumer orders/billing blocked the event loop for ") and f"{__file__}:" in warning
    assert "make the handler a plain def, which runs in a thread" in warning


async def test_a_handler_is_named_again_after_a_minute(caplog: pytest.LogCaptureFixture) -> None:
    monitor = BlockMonitor({})
    for since_s in (0.0, QUIET_S - 1, QUIET_S + 1):
        monitor._warned_at = {name: at - since_s for name, at in monitor._warned_at.items()}
        monitor._warn("consumer a/b", "file:1", seconds=0.5, is_over=True)
    assert len(warnings(caplog)) == 2


async def handle(action: Action, tx: Any) -> None:
    block()


class Object:
    async def __call__(self, action: Action, tx: Any) -> None:
        block()


async def send_mail(to: str) -> None:
    block()


@pytest.mark.parametrize("kind", ["function", "object", "after commit", "none of ours"])
async def test_every_kind_of_handler_is_found(kind: str, caplog: pytest.LogCaptureFixture) -> None:
    app = Headrace()
    function: Any = {"function": handle, "object": Object(), "none of ours": handle}.get(kind)
    if kind == "after commit":
        app.after_commit()(send_mail)
    else:
        app.handler("MAIL", timeout_s=60)(function)
    [group] = app.action_handlers.values()
    caplog.set_level(logging.WARNING)
    with BlockMonitor(handler_codes(app)).watching():
        if kind == "after commit":
            await send_mail("ada")
        elif kind == "none of ours":
            block()
        else:
            await group.handlers[0](Action(id=None, action="MAIL"), None)  # type: ignore[arg-type, misc]
        await asyncio.sleep(0.1)  # The monitor hears from the loop, and tells.
    deadline = time.monotonic() + 5
    while kind != "none of ours" and not warnings(caplog) and time.monotonic() < deadline:
        await asyncio.sleep(0.01)
    assert len(warnings(caplog)) == (kind != "none of ours")
