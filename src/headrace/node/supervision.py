"""Upkeep: the loops beside a node's work, such as its heartbeat, that must neither end the node nor end in silence."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

logger = logging.getLogger(__name__)

AGAIN_S = 5.0
"""Short enough that one failed heartbeat does not make the node count as lost."""


def supervise(name: str, loop: Callable[[], Awaitable[None]]) -> asyncio.Task[None]:
    """Starts a loop that runs until cancelled. An error that it does not wait for itself is told, and after a pause the loop
    begins again."""
    return asyncio.create_task(_keep_up(name, loop), name=name)


async def _keep_up(name: str, loop: Callable[[], Awaitable[None]]) -> None:
    while True:
        try:
            await loop()
        except Exception:
            logger.exception("%s failed; it begins again in %.0f s", name, AGAIN_S)
        await asyncio.sleep(AGAIN_S)
