"""Sessions: what a handler gets as its second argument: a driver's connection or an ORM session.

Owns: the bridge from the open transaction to the session. Promises: everything a handler does through its session happens in the
transaction that also moves the cursor or acks the action; a session cannot end that transaction; a library is imported only when
a handler asks for it."""

from headrace.consume.sessions.kinds import (
    ASYNCPG,
    SESSION_KINDS,
    SessionKind,
    SessionRequest,
    check_session_option,
    request_for,
    session_kind,
)

__all__ = ["ASYNCPG", "SESSION_KINDS", "SessionKind", "SessionRequest", "check_session_option", "request_for", "session_kind"]
