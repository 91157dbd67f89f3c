"""Headers of a request. A header that decides something may come once only: proxies and servers disagree on which of two counts."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from headrace.web.http.problems import Problem

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
