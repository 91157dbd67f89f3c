"""Problems: errors as answers of HTTP, in the form of RFC 9457: what happened, and what to do."""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping
from http import HTTPStatus

import psycopg
from psycopg_pool import PoolTimeout, TooManyRequests
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

logger = logging.getLogger(__name__)

RETRY_S = 1
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
    """An answer that is an error."""

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
