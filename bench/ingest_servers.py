"""The servers that bench/ingest.py compares, each a process of its own: `python -m bench.ingest_servers ours|bare DSN PORT`."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import uvicorn
from psycopg_pool import AsyncConnectionPool
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from headrace.core import Address, encode
from headrace.db import Target
from headrace.web.http import IngestSettings, create_app
from headrace.web.http.server import server_config

CONNECTIONS = 4
TABLE = """create table bare_event (
    id bigint generated always as identity primary key, type text not null, key text, payload jsonb not null,
    created_at timestamptz not null default now())"""


def bare_app(dsn: str) -> Starlette:
    """What one would write by hand: no tokens, no limits, no checks but that of JSON."""
    pool = AsyncConnectionPool(dsn, min_size=CONNECTIONS, max_size=CONNECTIONS, open=False, kwargs={"autocommit": True})

    @asynccontextmanager
    async def lifespan(_app: Starlette) -> AsyncIterator[None]:
        async with pool:
            yield

    async def publish(request: Request) -> JSONResponse:
        payload = await request.json()
        query = request.query_params
        async with pool.connection() as conn:
            row = await (
                await conn.execute(
                    "insert into bare_event (type, key, payload) values (%s, %s, %s::text::jsonb) returning id",
                    (query["type"], query.get("key"), encode(payload)),
                )
            ).fetchone()
        assert row is not None
        return JSONResponse({"id": row[0]}, status_code=201)

    return Starlette(routes=[Route("/topics/{topic}/events", publish, methods=["POST"])], lifespan=lifespan)


def main(kind: str, dsn: str, port: int) -> None:
    if kind == "ours":
        settings = IngestSettings(address=Address("127.0.0.1", port), connections=CONNECTIONS, rate_per_s=1e9)
        config = server_config(create_app([Target("bench", dsn)], settings))
    else:
        config = uvicorn.Config(bare_app(dsn), http="h11", ws="none", log_level="critical", access_log=False)
    config.host, config.port = "127.0.0.1", port
    uvicorn.Server(config).run()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
