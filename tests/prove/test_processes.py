"""The reason why a process ended by itself, from its log."""

from __future__ import annotations

from headrace.prove.processes import LOG_LINES_MAX, exit_reason


def test_exit_reason_is_the_last_traceback_with_what_follows() -> None:
    start = "Traceback (most recent call last):"
    log = f"INFO begun\n{start}\n  early\nValueError: 1\n{start}\n  late\nKeyError: 2\nINFO bye\n"
    assert exit_reason(log) == f"{start}\n  late\nKeyError: 2\nINFO bye"


def test_exit_reason_without_a_traceback_is_the_last_line() -> None:
    assert (exit_reason("INFO one\nINFO two\n"), exit_reason("")) == ("INFO two", "")


def test_long_exit_reason_keeps_its_beginning_and_its_end() -> None:
    lines = exit_reason("Traceback\n" + "\n".join(f"line {n}" for n in range(1000))).splitlines()
    assert len(lines) == LOG_LINES_MAX + 1 and (lines[0], lines[-1]) == ("Traceback", "line 999")
