"""Requests: their headers and bodies, read within limits; and problems: errors as answers, in the form of RFC 9457, which say what
happened and what to do.

Promises: a body is read within its limits of bytes and time, and all together within a limit of memory. A header that decides something
may come once only: proxies and servers disagree on which of two counts."""

from __future__ import annotations

import asyncio
import logging
import math
from collections import Counter
from collections.abc import Hashable, Iterator, Mapping
from http import HTTPStatus
from typing import Any

import psycopg
from psycopg_pool import PoolTimeout, TooManyRequests
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from headrace.core import (
    JSON,
    Conflict,
    DatabaseUnavailable,
    Forbidden,
    HeadraceError,
    IdempotencyKeyReused,
    Invalid,
    InvalidCloudEvent,
    InvalidPayload,
    InvalidSignature,
    NotFound,
    NotMigrated,
    PayloadTooDeep,
    PayloadTooLarge,
    encode,
    map_error,
    redact,
)
from headrace.web.http.settings import IngestSettings

logger = logging.getLogger(__name__)

RETRY_S = 1
# Nothing after such an answer is read: the rest of the body may never end.
CLOSE = {"connection": "close"}
DISCARDED = 4
"""A body of up to this many times the limit is read to its end and thrown away."""
SMALL_PART = 1 / 32
"""The last quarter of the memory is for senders that have less of it than this part: a few slow ones never take it all."""
HEAD_BYTES_MAX = 32 * 1024
"""Servers have a limit, too, but many apply it only to heads that come in several pieces."""
# The first class that fits decides.
_STATUSES: tuple[tuple[type[HeadraceError], int], ...] = (
    (PayloadTooLarge, 413),
    (InvalidPayload, 400),
    (InvalidCloudEvent, 400),
    (InvalidSignature, 401),
    (IdempotencyKeyReused, 422),
    (NotFound, 404),
    (Conflict, 409),
    (Invalid, 422),
    (Forbidden, 403),
    (DatabaseUnavailable, 503),
    (NotMigrated, 503),
)


class Problem(Exception):
    def __init__(self, status: int, detail: str, *, error: str | None = None, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(detail)
        self.status = status
        self.detail = detail
        self.error = error or HTTPStatus(status).phrase.title().replace(" ", "").replace("-", "")
        self.headers = dict(headers or {})

    def response(self) -> Response:
        body: dict[str, JSON] = {
            "title": HTTPStatus(self.status).phrase,
            "status": self.status,
            "error": self.error,
            "detail": self.detail,
        }
        headers = {"cache-control": "no-store", "x-content-type-options": "nosniff", **self.headers}
        return Response(encode(body), self.status, headers, media_type="application/problem+json")


def too_many(detail: str, wait_s: float) -> Problem:
    """429: the client sends faster than it may."""
    return Problem(429, detail, headers={"retry-after": str(max(math.ceil(wait_s), 1))})


def unavailable(detail: str) -> Problem:
    """503: not now."""
    return Problem(503, detail, headers={"retry-after": str(RETRY_S)})


def problem_of(error: Exception) -> Problem:
    """The answer to an error. What is not ours says nothing about the inside; the log has it."""
    if isinstance(error, Problem):
        return error
    if isinstance(error, RecursionError):
        error = PayloadTooDeep("the JSON nests too deeply to be read; flatten it")
    if isinstance(error, UnicodeDecodeError):
        return Problem(400, f"the request has bytes that are not UTF-8 at {error.start}; correct them", error="InvalidText")
    if isinstance(error, PoolTimeout | TooManyRequests):
        return unavailable("no connection to the database was free in time; nothing was published, try again")
    if isinstance(error, TimeoutError):
        return unavailable("the database did not answer in time; try again")
    if not isinstance(error, HeadraceError):
        error = map_error(error) or error
    for error_class, status in _STATUSES:
        if isinstance(error, error_class):
            headers = {"retry-after": str(RETRY_S)} if status == 503 else {}
            return Problem(status, redact(str(error)), error=type(error).__name__, headers=headers)
    if isinstance(error, psycopg.DataError) and error.sqlstate is None:
        # The driver itself sends no text with a NUL.
        return Problem(422, "a text has a NUL character, which PostgreSQL cannot store; remove it", error="InvalidText")
    if isinstance(error, psycopg.OperationalError):
        # A commit whose answer got lost may have happened.
        logger.warning("a request failed: %s", redact(str(error).strip()))
        return unavailable(
            "the connection to the database was lost, or a lock was not free in time; the events may have been published or not. "
            "Send the same request again, with the same Idempotency-Key or event ids"
        )
    logger.error("a request failed", exc_info=error)
    return Problem(500, "the server failed; nothing is known to be published. Its log has the reason", error="ServerError")


class Headers:
    """The headers of a request, by their names in lower case. Raises Problem (431) if they are too large."""

    def __init__(self, scope: Any) -> None:
        size = len(scope.get("query_string", b"")) + sum(len(name) + len(value) for name, value in scope["headers"])
        if size > HEAD_BYTES_MAX:
            raise Problem(
                431, f"URL and headers have {size} bytes, at most {HEAD_BYTES_MAX} are allowed", headers={"connection": "close"}
            )
        self._values: dict[str, list[str]] = {}
        for name, value in scope["headers"]:
            self._values.setdefault(name.decode("latin-1").lower(), []).append(value.decode("latin-1"))

    def get(self, name: str) -> str | None:
        """The value of a header. Raises Problem (400) if it came twice."""
        values = self._values.get(name)
        if values is None:
            return None
        if len(values) > 1:
            raise Problem(400, f"the header {name} came {len(values)} times; send it once", error="DuplicateHeader")
        return values[0]

    def text(self, name: str) -> str | None:
        """The value of a header that becomes text of an event. Raises Problem (400) unless it is ASCII."""
        value = self.get(name)
        if value is not None and not value.isascii():
            raise Problem(
                400,
                f"the header {name} has characters beyond ASCII; give the value as a parameter of the URL",
                error="InvalidHeader",
            )
        return value

    def names_with(self, prefix: str) -> Iterator[str]:
        """The names of headers that start with a prefix, without it."""
        return (name.removeprefix(prefix) for name in self._values if name.startswith(prefix))


class BodyReader:
    def __init__(self, settings: IngestSettings) -> None:
        self._settings = settings
        self._buffered: Counter[Hashable] = Counter()

    async def read(self, request: Request, sender: Hashable) -> bytes:
        """The body. Raises Problem: 400 if the client went away, 408 if it is too slow, 413 if it sends too much, 503 if that or what its
        sender sends at the time takes too much memory."""
        limit = self._settings.body_bytes_max
        length = request.headers.get("content-length", "")
        is_endless = length.isascii() and length.isdigit() and (len(length) > 15 or int(length) > DISCARDED * limit)
        if is_endless:
            raise self._too_large(length)
        chunks: list[bytes] = []
        size = held = 0
        try:
            async with asyncio.timeout(self._settings.body_s):
                async for chunk in request.stream():
                    size += len(chunk)
                    if size > limit:
                        # The client would not see the answer if the connection were closed while it sends: read a little more.
                        chunks.clear()
                        self._buffered[sender] -= held
                        held = 0
                        if size > DISCARDED * limit:
                            break
                        continue
                    held += len(chunk)
                    self._buffered[sender] += len(chunk)
                    chunks.append(chunk)
                    total, maximum = self._buffered.total(), self._settings.buffered_bytes_max
                    if total > maximum or (total > 0.75 * maximum and self._buffered[sender] > SMALL_PART * maximum):
                        raise unavailable("the server receives too many large requests now; nothing was published, try again")
        except TimeoutError:
            raise Problem(
                408, f"the body did not arrive within {self._settings.body_s:g} s; nothing was published", headers=CLOSE
            ) from None
        except ClientDisconnect:
            raise Problem(400, "the client went away before the end of the body; nothing was published", headers=CLOSE) from None
        finally:
            self._buffered[sender] -= held
            if not self._buffered[sender]:
                del self._buffered[sender]
        if size > limit:
            raise self._too_large(f"{size} or more")
        return b"".join(chunks)

    def _too_large(self, size: str) -> Problem:
        return Problem(
            413,
            f"the body has {size} bytes, at most {self._settings.body_bytes_max} are allowed; send smaller batches, or store the large "
            "part elsewhere and publish a reference to it",
            error="PayloadTooLarge",
            headers=CLOSE,
        )
