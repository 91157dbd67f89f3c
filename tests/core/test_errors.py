"""Every error explains itself, and has a SQLSTATE and an exit code."""

from __future__ import annotations

import pytest

from headrace.core import HeadraceError, Invalid, NotFound
from headrace.core.errors import error_classes, error_for_sqlstate

CORE = [error for error in error_classes() if error.__module__ == "headrace.core.errors"]


def test_every_error_says_what_happened_and_what_to_do() -> None:
    short = [error.__name__ for error in CORE if error is not HeadraceError and len((error.__doc__ or "").split()) < 8]
    assert short == []


def test_every_sqlstate_belongs_to_one_error() -> None:
    own = [error for error in CORE if "sqlstate" in vars(error)]
    assert [error_for_sqlstate(error.sqlstate) for error in own] == own


@pytest.mark.parametrize(
    ("sqlstate", "error"), [("HR399", Invalid), ("HR199", NotFound), ("HR999", HeadraceError), ("42P01", None), ("", None)]
)
def test_unknown_sqlstate_is_its_branch(sqlstate: str, error: type[HeadraceError] | None) -> None:
    assert error_for_sqlstate(sqlstate) is error


def test_exit_code_belongs_to_the_branch() -> None:
    assert {error.exit_code for error in CORE if issubclass(error, NotFound)} == {3}
    assert {error.exit_code for error in CORE if issubclass(error, Invalid)} == {5}
