"""What is said of a process that ended by itself tells why."""

from __future__ import annotations

from headrace.prove.processes import TOLD_MAX, last_words


def test_last_words_are_the_last_traceback_with_what_followed() -> None:
    begins = "Traceback (most recent call last):"
    log = f"INFO begun\n{begins}\n  early\nValueError: 1\n{begins}\n  late\nKeyError: 2\nINFO bye\n"
    assert last_words(log) == f"{begins}\n  late\nKeyError: 2\nINFO bye"


def test_last_words_without_a_traceback_are_the_last_line() -> None:
    assert (last_words("INFO one\nINFO two\n"), last_words("")) == ("INFO two", "")


def test_long_last_words_keep_their_beginning_and_their_end() -> None:
    told = last_words("Traceback\n" + "\n".join(f"line {n}" for n in range(1000))).splitlines()
    assert len(told) == TOLD_MAX + 1 and (told[0], told[-1]) == ("Traceback", "line 999")
