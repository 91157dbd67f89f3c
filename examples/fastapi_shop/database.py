"""The engine of the shop, and a session per request that commits at the end."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator

from sqlalchemy.ext.asyncio import AsyncSession, async_sessionmaker, create_async_engine

DATABASE_URL = os.environ.get("DATABASE_URL", "postgresql+asyncpg://localhost/shop")

engine = create_async_engine(DATABASE_URL, pool_pre_ping=True)
new_session = async_sessionmaker(engine, expire_on_commit=False)


async def request_session() -> AsyncIterator[AsyncSession]:
    """For `Depends`: the transaction of one request. Declare it with scope="function", so that it commits before the answer."""
    async with new_session.begin() as session:
        yield session
