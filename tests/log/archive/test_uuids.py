"""UUIDs become the texts that Python makes of them."""

from __future__ import annotations

from uuid import UUID, uuid4

import pyarrow as pa
import pytest

from headrace.log.archive.parquet import uuid_texts

IDS = [UUID(int=0), UUID(int=2**128 - 1), UUID("0190b5e7-4b1c-7a00-8f00-00000000000f"), *(uuid4() for _ in range(50))]


@pytest.mark.parametrize("first", [0, 1, 17])
def test_bytes_become_texts(first: int) -> None:
    column = pa.array([own.bytes for own in IDS], pa.binary(16)).slice(first)
    assert uuid_texts(column).to_pylist() == [str(own) for own in IDS[first:]]


def test_null_stays_null() -> None:
    column = pa.array([IDS[3].bytes, None, IDS[4].bytes], pa.binary(16))
    assert uuid_texts(column).to_pylist() == [str(IDS[3]), None, str(IDS[4])]
    assert uuid_texts(column.slice(1, 1)).to_pylist() == [None]


def test_no_rows_are_no_texts() -> None:
    assert uuid_texts(pa.array([], pa.binary(16))).to_pylist() == []
