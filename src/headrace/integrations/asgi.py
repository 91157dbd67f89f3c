"""ASGI: a node in the process of an ASGI server, for applications that have no lifespan of their own, such as Django's.

Promises: the server accepts requests only after the node has started; if it cannot start, the server reports why and ends; the
node stops after the last request. An application that has a lifespan keeps it: it starts after the node and stops before it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, Self, TypeAlias, TypedDict, Unpack

from headrace.core import HeadraceError
from headrace.db import LoopFailure, cancel_tasks
from headrace.node import Headrace, Identity, RunningNode, WorkerSettings

logger = logging.getLogger(__name__)

# The types of the ASGI specification; servers and frameworks define them alike.
Message: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Message]]
Send: TypeAlias = Callable[[Message], Awaitable[None]]
Application: TypeAlias = Callable[[MutableMapping[str, Any], Receive, Send], Awaitable[None]]


class NodeOptions(TypedDict, total=False):
    """The options of `Headrace.running`."""

    dsn: str | None
    sequencer: bool
    start_timeout_s: float
    grace_s: float
    on_failure: Callable[[LoopFailure], None] | None
    identity: Identity | None
    work: WorkerSettings | None


def with_node(application: Application, app: Headrace, **options: Unpack[NodeOptions]) -> ASGIApplicationWithNode:
    """The ASGI application, with a node of `app` that runs as long as the server does."""
    return ASGIApplicationWithNode(application, app, options)


class ASGIApplicationWithNode:
    """An ASGI application that runs a node during its lifespan."""

    def __init__(self, application: Application, app: Headrace, options: NodeOptions) -> None:
        self.node: RunningNode | None = None
        """The node while it runs; its `health()` is for a health check."""
        self._application = application
        self._app = app
        self._options = options

    async def __call__(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._lifespan(scope, receive, send)
        else:
            await self._application(scope, receive, send)

    async def _lifespan(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        await receive()
        phase = "startup"
        try:
            async with self._app.running(**self._options) as self.node, InnerLifespan(self._application, scope) as inner:
                await inner.exchange("startup")
                await send({"type": "lifespan.startup.complete"})
                await receive()
                phase = "shutdown"
                await inner.exchange("shutdown")
            await send({"type": "lifespan.shutdown.complete"})
        except Exception as error:  # noqa: BLE001 - the server prints the message and ends
            logger.error("%s failed: %s: %s", phase, type(error).__name__, error)
            await send({"type": f"lifespan.{phase}.failed", "message": f"{type(error).__name__}: {error}"})
        finally:
            self.node = None


class InnerLifespan:
    """The lifespan of the wrapped application. One that supports none raises at once, as the specification asks."""

    def __init__(self, application: Application, scope: MutableMapping[str, Any]) -> None:
        self._to_application: asyncio.Queue[Message] = asyncio.Queue()
        self._from_application: asyncio.Queue[Message] = asyncio.Queue()
        self._application = application
        self._scope = scope

    async def __aenter__(self) -> Self:
        self._task = asyncio.create_task(self._run())
        return self

    async def __aexit__(self, *_error: object) -> None:
        await cancel_tasks(self._task)

    async def _run(self) -> None:
        try:
            await self._application(self._scope, self._to_application.get, self._from_application.put)
        except Exception as error:  # noqa: BLE001 - the specification: whatever it raises, the lifespan is not supported
            logger.debug("the application has no lifespan: %s", error)

    async def exchange(self, phase: str) -> None:
        """Sends the event and waits for its answer, or for the end of an application without a lifespan."""
        await self._to_application.put({"type": f"lifespan.{phase}"})
        answer = asyncio.create_task(self._from_application.get())
        await asyncio.wait([answer, self._task], return_when=asyncio.FIRST_COMPLETED)
        if answer.done():
            message = answer.result()
        else:
            answer.cancel()
            if self._from_application.empty():
                return
            message = self._from_application.get_nowait()
        if message["type"] == f"lifespan.{phase}.failed":
            raise HeadraceError(f"the {phase} of the wrapped application failed: {message.get('message') or 'without a message'}")
