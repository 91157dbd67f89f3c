"""Maps what PostgreSQL reports to an error of our tree, by SQLSTATE and with the hint as advice. Knows no driver."""

from __future__ import annotations

from contextlib import AbstractContextManager
from types import TracebackType

from headrace.core.errors import (
    DatabaseUnavailable,
    Forbidden,
    HeadraceError,
    Invalid,
    InvalidNumber,
    InvalidText,
    NotFound,
    NotMigrated,
    PayloadTooDeep,
    error_for_sqlstate,
)

_BY_POSTGRESQL: dict[str, tuple[type[HeadraceError], str]] = {
    "3F000": (NotMigrated, "run: headrace migrate"),
    "42P01": (NotMigrated, "run: headrace migrate"),
    "42703": (NotMigrated, "run: headrace migrate"),
    "42883": (NotMigrated, "run: headrace migrate"),
    "22003": (InvalidNumber, "publish the number as a string"),
    "42501": (Forbidden, "name a namespace this role has, or ask its owner for: select headrace.grant_namespace(…)"),
    "22P05": (InvalidText, "remove NUL characters from the text"),
    "22P02": (Invalid, "correct the value"),
    "22007": (Invalid, "write a time such as 2026-01-31T12:00:00Z, an interval such as '30 days'"),
    "22008": (Invalid, "write a time such as 2026-01-31T12:00:00Z, an interval such as '30 days'"),
    "22015": (Invalid, "write an interval such as '30 days'"),
    "23503": (NotFound, "what the constraint refers to does not exist; create it first"),
    "23514": (Invalid, "correct the value"),
    "54001": (PayloadTooDeep, "flatten the payload"),
    "57P01": (DatabaseUnavailable, "the server is shutting down; try again"),
}

_LOWER_CASE = (
    "a name begins with a lower-case letter, followed by lower-case letters, digits, '_', '.' or '-'; at most {} characters"
)
_MIXED_CASE = "a name begins with a letter or '_', followed by letters, digits or any of '{}'; at most 200 characters"
NAME_RULES = {
    "namespace_name_rule": "a name begins with a lower-case letter, followed by lower-case letters, digits or '_'; at most 40 characters",
    "topic_name_rule": _LOWER_CASE.format(100),
    "consumer_name_rule": _LOWER_CASE.format(100),
    "schedule_name_rule": _LOWER_CASE.format(100),
    "access_token_name_rule": _LOWER_CASE.format(100),
    "hook_name_rule": _LOWER_CASE.format(100),
    "correlator_name_rule": _LOWER_CASE.format(80),
    "relay_name_rule": _LOWER_CASE.format(80),
    "rule_name_rule": _MIXED_CASE.format("_.:/- "),
    "event_type_name_rule": _MIXED_CASE.format("_.:/- "),
    "rule_event_type_rule": _MIXED_CASE.format("_.:/- "),
    "action_name_rule": _MIXED_CASE.format("_.:/-"),
    "rule_action_rule": _MIXED_CASE.format("_.:/-"),
}
"""What the rules for names allow, by the constraint that checks them."""


def map_error(error: BaseException) -> HeadraceError | None:
    """Our error for one of psycopg or asyncpg, also if SQLAlchemy or Django wraps it; None if it has no meaning for headrace."""
    origin: BaseException = getattr(error, "orig", None) or error
    # A wrapper may repeat the SQLSTATE without the hint: the innermost error with a SQLSTATE is the driver's own.
    while (cause := origin.__cause__) is not None and (_sqlstate(origin) is None or _sqlstate(cause) is not None):
        origin = cause
    sqlstate = _sqlstate(origin)
    if not sqlstate:
        return None
    message, hint = _message_and_hint(origin)
    if (ours := error_for_sqlstate(sqlstate)) is not None:
        return ours(f"{message}; {hint[0].lower()}{hint[1:].rstrip('.')}" if hint else message)
    if sqlstate not in _BY_POSTGRESQL:
        return None
    error_class, advice = _BY_POSTGRESQL[sqlstate]
    constraint = _constraint(origin)
    if (rule := NAME_RULES.get(constraint)) is not None:
        return Invalid(f"invalid {constraint.removesuffix('_rule').replace('_', ' ')}; {rule}")
    return error_class(f"{message}; {advice}")


def _sqlstate(error: BaseException) -> str | None:
    return getattr(error, "sqlstate", None) or getattr(error, "pgcode", None)


def _message_and_hint(error: BaseException) -> tuple[str, str | None]:
    diag = getattr(error, "diag", None)
    if diag is not None:
        return diag.message_primary or str(error), diag.message_hint
    return str(getattr(error, "message", None) or error), getattr(error, "hint", None)


def _constraint(error: BaseException) -> str:
    diag = getattr(error, "diag", error)
    return getattr(diag, "constraint_name", None) or ""


class _ErrorMapping:
    # A class, not a generator: publish() passes here for every event, and a generator takes microseconds.
    def __enter__(self) -> None: ...

    def __exit__(self, _kind: type[BaseException] | None, error: BaseException | None, _traceback: TracebackType | None) -> None:
        if isinstance(error, Exception) and not isinstance(error, HeadraceError) and (ours := map_error(error)) is not None:
            raise ours from error


_mapping = _ErrorMapping()


def map_database_errors() -> AbstractContextManager[None]:
    """Raises our errors in place of the driver's inside the block."""
    return _mapping
