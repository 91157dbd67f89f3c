"""SQLSTATE → error: what PostgreSQL reports becomes the error of our tree, with the hint as advice."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from headrace.core import (
    BadText,
    DatabaseUnavailable,
    Forbidden,
    HeadraceError,
    Invalid,
    NotFound,
    NotMigrated,
    NumberRefused,
    PayloadTooDeep,
    error_for_sqlstate,
)

_FOREIGN: dict[str, tuple[type[HeadraceError], str]] = {
    "3F000": (NotMigrated, "run: headrace migrate"),
    "42P01": (NotMigrated, "run: headrace migrate"),
    "42883": (NotMigrated, "run: headrace migrate"),
    "22003": (NumberRefused, "publish the number as a string"),
    "42501": (Forbidden, "name a namespace this role has, or ask its owner for: select headrace.grant_namespace(…)"),
    "22P05": (BadText, "remove NUL characters from the text"),
    "22P02": (Invalid, "correct the value"),
    "22007": (Invalid, "write a time such as 2026-01-31T12:00:00Z, a span such as '30 days'"),
    "22008": (Invalid, "write a time such as 2026-01-31T12:00:00Z, a span such as '30 days'"),
    "22015": (Invalid, "write a span such as '30 days'"),
    "23503": (NotFound, "what the rule names is not there; create it first"),
    "23514": (Invalid, "see the rule named"),
    "54001": (PayloadTooDeep, "flatten the payload"),
    "57P01": (DatabaseUnavailable, "the server is shutting down; try again"),
}


def map_error(error: BaseException) -> HeadraceError | None:
    """Our error for an error of psycopg or asyncpg, also when SQLAlchemy or Django wraps it; None for a foreign one."""
    origin: BaseException = getattr(error, "orig", None) or error
    # A wrapper may repeat the SQLSTATE and drop the hint: the innermost that has one is the driver's own.
    while (cause := origin.__cause__) is not None and (_sqlstate(origin) is None or _sqlstate(cause) is not None):
        origin = cause
    sqlstate = _sqlstate(origin)
    if not sqlstate:
        return None
    message, hint = _told(origin)
    ours = error_for_sqlstate(sqlstate)
    if ours is not None:
        return ours(f"{message}; {hint[0].lower()}{hint[1:].rstrip('.')}" if hint else message)
    foreign = _FOREIGN.get(sqlstate)
    return foreign[0](f"{message}; {foreign[1]}") if foreign else None


def _sqlstate(error: BaseException) -> str | None:
    return getattr(error, "sqlstate", None) or getattr(error, "pgcode", None)


def _told(error: BaseException) -> tuple[str, str | None]:
    diag = getattr(error, "diag", None)
    if diag is not None:
        return diag.message_primary or str(error), diag.message_hint
    return str(getattr(error, "message", None) or error), getattr(error, "hint", None)


@contextmanager
def map_database_errors() -> Iterator[None]:
    """Raises our errors in place of the driver's inside the block."""
    try:
        yield
    except HeadraceError:
        raise
    except Exception as error:
        ours = map_error(error)
        if ours is None:
            raise
        raise ours from error
