"""Spark through a role: it reads and writes in its own namespace, and in no other."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from headrace.core import Forbidden, UnknownTopic
from headrace.db import Connection, Target
from headrace.spark import event_schema
from headrace.spark.sink import EventWriter, SinkOptions
from tests.builders import drain
from tests.db.namespaces.conftest import SignIn
from tests.spark.reading import read_numbers, secret_file

pytestmark = pytest.mark.lane("pg18")


def write(secret: str, namespace: str) -> None:
    options = {"secret": secret, "topic": "orders", "type": "placed", "namespace": namespace}
    writer = EventWriter(SinkOptions.from_options(options, event_schema(["payload"]), overwrite=False))
    writer.commit([writer.write(iter([pa.record_batch({"payload": ["41", "42"]})]))])


def test_role_reads_its_own_namespace_only(sign_in: SignIn, tmp_path: Path) -> None:
    secret = secret_file(tmp_path, Target("main", sign_in(a="consume").info.dsn))
    options = {"extract": '{"n": "n"}', "toPosition": "3"}
    assert len(read_numbers(secret, namespace="a", column="n", **options)) == 2
    with pytest.raises(UnknownTopic):
        read_numbers(secret, namespace="b", column="n", **options)


def test_role_writes_to_its_own_namespace_only(sign_in: SignIn, owner_conn: Connection, tmp_path: Path) -> None:
    drain(owner_conn)
    secret = secret_file(tmp_path, Target("main", sign_in(a="publish").info.dsn))
    write(secret, "a")
    assert drain(owner_conn) == 2
    with pytest.raises(Forbidden):
        write(secret, "b")
    assert drain(owner_conn) == 0


def test_role_of_another_level_writes_nothing(sign_in: SignIn, tmp_path: Path) -> None:
    with pytest.raises(Forbidden):
        write(secret_file(tmp_path, Target("main", sign_in(a="consume").info.dsn)), "a")
