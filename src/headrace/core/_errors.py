"""The one tree of errors. The docstring of a class is its explanation; SQL raises the same thing by its SQLSTATE.

Exit codes of the command line hang on the branches: not found 3, conflict 4, invalid 5, found problems 6, all else 1.
"""

from __future__ import annotations

from typing import ClassVar


class HeadraceError(Exception):
    """Something headrace was asked to do did not happen."""

    sqlstate: ClassVar[str] = "HR000"
    exit_code: ClassVar[int] = 1


class NotFound(HeadraceError):
    """The named thing does not exist."""

    sqlstate = "HR100"
    exit_code = 3


class Conflict(HeadraceError):
    """The thing exists already, or is in a state that does not allow this."""

    sqlstate = "HR200"
    exit_code = 4


class Invalid(HeadraceError):
    """The input breaks a rule; nothing was written."""

    sqlstate = "HR300"
    exit_code = 5
