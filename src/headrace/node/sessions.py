"""Sessions of handlers, for the application: which kinds there are."""

from headrace.consume.sessions import session_kind

__all__ = ["session_kind"]
