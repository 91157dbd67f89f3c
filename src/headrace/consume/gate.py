"""Handler gate: lets an event be handled while no other handler of the process runs.

If a process dies, everybody loses what its handlers had in hand. Only of an event that was handled alone it is certain that it did it.
Promises: who wants to be alone waits for running handlers, at most 10 s, and none begins meanwhile; nobody else notices the gate."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from weakref import WeakKeyDictionary

ALONE_WAIT_S = 10.0
"""How long to wait for handlers that run. One that takes longer goes on beside the event."""


class HandlerGate:
    """The gate of one event loop."""

    def __init__(self) -> None:
        self._running = 0
        self._turn = asyncio.Lock()
        self._is_open = asyncio.Event()
        self._is_open.set()
        self._is_idle = asyncio.Event()

    @asynccontextmanager
    async def shared(self) -> AsyncIterator[None]:
        """For a claim and its handlers, which run beside others."""
        while not self._is_open.is_set():
            await self._is_open.wait()
        self._running += 1
        try:
            yield
        finally:
            self._running -= 1
            if not self._running:
                self._is_idle.set()

    @asynccontextmanager
    async def alone(self) -> AsyncIterator[None]:
        """For a claim and its handler, which no other runs beside."""
        async with self._turn:
            self._is_open.clear()
            try:
                if self._running:
                    self._is_idle.clear()
                    with suppress(TimeoutError):
                        await asyncio.wait_for(self._is_idle.wait(), ALONE_WAIT_S)
                yield
            finally:
                self._is_open.set()


_gates: WeakKeyDictionary[asyncio.AbstractEventLoop, HandlerGate] = WeakKeyDictionary()


def handler_gate() -> HandlerGate:
    """The gate of the running event loop, and so of all nodes that run on it: they die together."""
    loop = asyncio.get_running_loop()
    gate = _gates.get(loop)
    if gate is None:
        gate = _gates[loop] = HandlerGate()
    return gate
