"""Tables on terminals of different widths."""

from __future__ import annotations

from io import StringIO

import pytest

from headrace.cli.output import SafeConsole, table

COLUMNS = ("rule", "topic", "event_type", "condition", "action", "timing", "version", "status")
BIG = ("big-order", "orders", "order.placed", "(object -> 'total')::int >= 1000", "CALL_CUSTOMER", "after", 1, "valid")
PAYLOAD = '{"customer":"customer-1","total":1000,"currency":"EUR","phone":"555-0101"}'


def shown(columns: tuple[str, ...], *rows: tuple[object, ...], width: int) -> list[str]:
    file = StringIO()
    SafeConsole(file=file, width=width).print(table(columns, rows))
    return [line.rstrip() for line in file.getvalue().splitlines()]


def test_row_is_a_line_where_there_is_room() -> None:
    assert any(all(str(value) in line for value in BIG) for line in shown(COLUMNS, BIG, width=200))


def test_rows_become_records_where_words_would_be_broken() -> None:
    lines = shown(COLUMNS, BIG, BIG, width=80)
    assert [line for line in lines if line.startswith("event type")] == ["event type  order.placed"] * 2
    assert "condition   (object -> 'total')::int >= 1000" in lines
    assert lines[len(COLUMNS)] == "", "an empty line ends a record"


@pytest.mark.parametrize("columns", [("position", "key", "payload"), ("payload", "")])
def test_only_a_very_long_word_is_broken(columns: tuple[str, ...]) -> None:
    lines = shown(columns, (PAYLOAD, "a", PAYLOAD)[-len(columns) :], width=60)
    assert all(heading in lines[1] for heading in columns), "still a table"
