"""The ASGI application: routes, and errors as problem details."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import ExitStack, asynccontextmanager
from typing import TypeAlias, TypeVar
from uuid import UUID

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp

from headrace.core import DatabaseUnavailable, encode
from headrace.db import Target
from headrace.web.http.authentication import Authenticator
from headrace.web.http.databases import NOBODY, Database, Databases, client_address
from headrace.web.http.event_requests import (
    BATCH,
    Hooks,
    parse_request,
    publish_events,
    publish_request,
    verify_and_map,
)
from headrace.web.http.reading import EventQuery, EventStream, LogReader, Start
from headrace.web.http.request import BodyReader, Headers, Problem, problem_of
from headrace.web.http.settings import IngestSettings

T = TypeVar("T")
Endpoint: TypeAlias = Callable[[Request], Awaitable[ASGIApp]]
NO_STORE = {"cache-control": "no-store", "x-content-type-options": "nosniff"}
STREAM = "text/event-stream"
READ_PARAMETERS = frozenset({"after", "limit", "wait_s", "types", "key", "shard"})
HEALTH_S = 2.0


def build_app(targets: Sequence[Target], settings: IngestSettings) -> Starlette:
    ingest = Ingest(targets, settings)

    @asynccontextmanager
    async def lifespan(_app: Starlette) -> AsyncIterator[None]:
        yield
        await ingest.close()

    def route(path: str, endpoint: Endpoint, method: str) -> Route:
        @functools.wraps(endpoint)
        async def answer(request: Request) -> ASGIApp:
            try:
                return await endpoint(request)
            except Exception as error:  # noqa: BLE001 - every error becomes an answer
                return problem_of(error).response()

        return Route(path, answer, methods=[method])

    return Starlette(
        routes=[
            route("/topics/{topic}/events", ingest.publish, "POST"),
            route("/topics/{topic}/events", ingest.read, "GET"),
            route("/hooks/{hook}", ingest.take_webhook, "POST"),
            route("/hooks/{namespace}/{hook}", ingest.take_webhook, "POST"),
            route("/healthz", ingest.show_health, "GET"),
        ],
        exception_handlers={404: _not_found, 405: _wrong_method},
        lifespan=lifespan,
    )


class Ingest:
    def __init__(self, targets: Sequence[Target], settings: IngestSettings) -> None:
        self._settings = settings
        self._databases = Databases(targets, settings)
        self._authenticator = Authenticator(settings)
        self._hooks = Hooks(settings.cache_s, self._authenticator.unknown)
        self._bodies = BodyReader(settings)
        self._readers = {database: LogReader(database, settings.cache_s) for database in self._databases.all}

    async def publish(self, request: Request) -> Response:
        topic = request.path_params["topic"]
        headers = Headers(request.scope)
        authorization = headers.get("authorization")
        address = _address(request)
        token = await self._on_any_shard(
            lambda database: self._authenticator.authenticate(authorization, database, address=address)
        )
        # Before the body is read: whoever may not publish cannot make the server receive anything.
        token.require("publish", topic)
        limit = self._authenticator.limit(token)
        # Every request costs one, also a bad one.
        limit.take(1)
        body = await self._bodies.read(request, ("tokens", token.namespace))
        query = _parameters(request)
        event_request = parse_request(topic, headers, query, body, batch_max=self._settings.batch_max, producer=token.name)
        for event in event_request.events:
            token.require_type(event.type)
        limit.take(len(event_request.events) - 1)
        database = self._databases.for_events(event_request.events)
        if len(self._databases.all) > 1:
            # The token's number differs from shard to shard, and so do its keys.
            token = await self._authenticator.authenticate(authorization, database, address=address)
        ids, is_replayed = await publish_request(database, token, topic, event_request)
        return _created(ids, is_replayed=is_replayed)

    async def read(self, request: Request) -> ASGIApp:
        topic = request.path_params["topic"]
        headers, parameters = Headers(request.scope), _parameters(request)
        if unknown := sorted(set(parameters) - READ_PARAMETERS):
            raise Problem(
                400, f"there is no parameter {unknown[0]!r}; use {', '.join(sorted(READ_PARAMETERS))}", error="InvalidParameter"
            )
        database = self._databases.for_shard(parameters.get("shard"))
        authenticate = functools.partial(
            self._authenticator.authenticate, headers.get("authorization"), database, address=_address(request)
        )
        token = await authenticate()
        token.require("read", topic)
        self._authenticator.limit(token).take(1)
        accept = (headers.get("accept") or "").lower()
        types = parameters.get("types")
        wanted = EventQuery(
            namespace=token.namespace,
            topic=topic,
            after=_start(headers.get("last-event-id") or parameters.get("after", "earliest")),
            limit=int(_number(parameters, "limit", 100, 1, self._settings.read_limit_max)),
            types=tuple(types.split(",")[:100]) if types else None,
            granted_types=None if token.event_types is None else tuple(token.event_types),
            key=parameters.get("key"),
        )
        reader = self._readers[database]
        wait_s = _number(parameters, "wait_s", 0, 0, self._settings.wait_s_max)
        with ExitStack() as slot:
            slot.enter_context(self._authenticator.reader_slot(token))
            if STREAM in accept:

                async def check_token() -> None:
                    (await authenticate()).require("read", topic)

                # Errors of the first look still have a status of their own.
                return EventStream(reader, wanted, await reader.read(wanted, wait_s=0), check_token, slot.pop_all())
            page = await reader.read(wanted, wait_s=wait_s)
        headers_out = {**NO_STORE, "headrace-next": str(page.next)}
        if BATCH in accept:
            batch = f"[{','.join(event.to_cloudevent(topic) for event in page.events)}]"
            return Response(batch.encode(), headers=headers_out, media_type=BATCH)
        body = b'{"events":[' + b",".join(event.json for event in page.events) + f'],"next":{page.next}}}'.encode()
        return Response(body, headers=headers_out, media_type="application/json")

    async def take_webhook(self, request: Request) -> Response:
        namespace = request.path_params.get("namespace", "default")
        name = request.path_params["hook"]
        headers, address = Headers(request.scope), _address(request)
        hook = await self._on_any_shard(lambda database: self._hooks.find(database, namespace, name, address=address))
        # Whoever knows the address may send a body: others must still find memory for theirs.
        body = await self._bodies.read(request, ("hooks", namespace))
        event = verify_and_map(hook, headers, _parameters(request), body)
        # Count only signed requests: others must not use up the hook's rate.
        self._authenticator.check(("hook", namespace, name), self._settings.rate_per_s).take(1)
        async with self._databases.for_events([event]).connection(namespace) as conn:
            return _created(await publish_events(conn, [event], namespace))

    async def show_health(self, _request: Request) -> Response:
        """Does every database answer?"""
        async with asyncio.timeout(HEALTH_S):
            for database in self._databases.all:
                async with database.connection(NOBODY) as conn:
                    await conn.execute("select 1")
        return Response(b'{"status":"ok"}', headers=NO_STORE, media_type="application/json")

    async def close(self) -> None:
        await self._authenticator.record_use()
        for reader in self._readers.values():
            await reader.close()
        await self._databases.close()

    async def _on_any_shard(self, ask: Callable[[Database], Awaitable[T]]) -> T:
        """The answer of the first shard that is reachable: tokens and hooks are the same on all."""
        *others, last = self._databases.all
        for database in others:
            try:
                return await ask(database)
            except DatabaseUnavailable:
                continue
        return await ask(last)


def _created(ids: Sequence[UUID], *, is_replayed: bool = False) -> Response:
    headers = {**NO_STORE, "idempotent-replayed": "true"} if is_replayed else NO_STORE
    return Response(encode({"ids": [str(id) for id in ids]}), 201, headers, media_type="application/json")


def _address(request: Request) -> str:
    return client_address(request.client.host if request.client else None)


def _parameters(request: Request) -> dict[str, str]:
    """The parameters of the URL. Raises Problem (400) if one comes twice."""
    parameters: dict[str, str] = {}
    for name, value in request.query_params.multi_items():
        if name in parameters:
            raise Problem(400, f"the parameter {name[:50]!r} came twice; send it once", error="InvalidParameter")
        parameters[name] = value
    return parameters


def _number(parameters: Mapping[str, str], name: str, default: float, minimum: float, maximum: float) -> float:
    text = parameters.get(name)
    if text is None:
        return default
    try:
        value = float(text)
    except ValueError:
        value = float("nan")
    if not minimum <= value <= maximum:
        raise Problem(400, f"{name} is {text[:20]!r}; give a number from {minimum:g} to {maximum:g}", error="InvalidParameter")
    return value


def _start(text: str) -> Start:
    if text == "earliest":
        return "earliest"
    if text == "latest":
        return "latest"
    if text.isascii() and text.isdigit() and len(text) <= 18:
        return int(text)
    raise Problem(400, f"after is {text[:20]!r}; give a position, earliest or latest", error="InvalidParameter")


async def _not_found(_request: Request, _error: Exception) -> Response:
    return Problem(
        404, "there is no such address; there are /topics/<topic>/events and /hooks/<namespace>/<hook>", error="UnknownAddress"
    ).response()


async def _wrong_method(_request: Request, error: Exception) -> Response:
    allowed = getattr(error, "headers", None) or {}
    return Problem(405, "this address does not take this method; see the header Allow", headers=allowed).response()
