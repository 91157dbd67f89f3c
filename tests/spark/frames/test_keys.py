"""Database and Spark accept the same keys, and give an event the same key."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from headrace.core import Invalid
from headrace.correlators.symbols import classifier_of
from headrace.db import Connection
from headrace.evaluate import Classifier, CorrelatorSpec, make_groups
from headrace.lang.ecl import compile, key_to_sql, parse
from headrace.lang.ecl.symbol_sql import KEY_BYTES_MAX

TABLE = compile(parse("push(x) {a}"))
LONG = "object ->> '{}'"
KEY = "object ->> 'v'"


def is_accepted(build: Any) -> bool:
    try:
        build()
    except Invalid:
        return False
    return True


@pytest.mark.parametrize(
    ("key", "valid"),
    [
        ("key", True),
        ("object ->> 'account'", True),
        ("(object -> 'n')::int", True),
        (LONG.format("a" * 6_000), True),
        (LONG.format("a" * 10_000), False),
        ("key) = (key", False),
        ("key) = (type", False),
        ("(object -> 'n')::numeric", False),
        ("object", False),
        ("", False),
    ],
    ids=lambda value: str(value)[:24],
)
def test_both_engines_accept_and_reject_the_same_keys(key: str, valid: bool) -> None:
    assert is_accepted(lambda: classifier_of(1, key, TABLE)) is valid
    assert is_accepted(lambda: make_groups([CorrelatorSpec(name="c", pattern="push(x) {a}", key=key)])) is valid


@pytest.mark.lane("pg18")
def test_long_key_has_the_same_checksum_on_both_engines(conn: Connection) -> None:
    lengths = [KEY_BYTES_MAX // 2, KEY_BYTES_MAX // 2 + 1]
    values = ["short", *("é" * length for length in lengths)]
    sql = key_to_sql(KEY, {})
    query = f"select {sql} from (select jsonb_build_object('v', v) as payload from unnest(%s::text[]) with ordinality u (v, n) order by n)"
    keys = [row[0] for row in conn.execute(query + " e", (values,)).fetchall()]
    classifier = Classifier((), make_groups([CorrelatorSpec(name="c", pattern="push(x) {a}", key=KEY)]))
    columns = {"payload": [f'{{"v": "{value}"}}' for value in values], "type": ["a"] * 3, "offset": [1, 2, 3]}
    batch = pa.record_batch({**columns, "appended_at": pa.array([0] * 3, pa.timestamp("us", "UTC"))})
    ((_, rows),) = classifier.classify(batch).group_rows()
    assert rows["key"].to_pylist() == keys
    assert keys[:2] == values[:2] and keys[2].startswith("sha256:")
