"""Requests: their headers and bodies, read within limits.

Promises: a body is read within its limits of bytes and time, and all together within a limit of memory. A header that decides something
may come once only: proxies and servers disagree on which of two counts."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Hashable, Iterator
from typing import Any

from starlette.requests import ClientDisconnect, Request

from headrace.web.http.problems import Problem, unavailable
from headrace.web.http.settings import IngestSettings

# Nothing after such an answer is read: the rest of the body may never end.
CLOSE = {"connection": "close"}
DISCARDED = 4
"""A body of up to this many times the limit is read to its end and thrown away."""
SMALL_PART = 1 / 32
"""The last quarter of the memory is for senders that have less of it than this part: a few slow ones never take it all."""
HEAD_BYTES_MAX = 32 * 1024
"""Servers have a limit, too, but many apply it only to heads that come in several pieces."""


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
    """Reads the bodies of one process."""

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
                    if self._is_full(sender):
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

    def _is_full(self, sender: Hashable) -> bool:
        limit, total = self._settings.buffered_bytes_max, self._buffered.total()
        return total > limit or (total > 0.75 * limit and self._buffered[sender] > SMALL_PART * limit)

    def _too_large(self, size: str) -> Problem:
        return Problem(
            413,
            f"the body has {size} bytes, at most {self._settings.body_bytes_max} are allowed; send smaller batches, or store the large "
            "part elsewhere and publish a reference to it",
            error="PayloadTooLarge",
            headers=CLOSE,
        )
