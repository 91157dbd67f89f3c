"""Spark through a role: it reads and writes in its own namespace, and in no other."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from headrace.core import Forbidden, UnknownTopic
from headrace.db import Connection, Target
from headrace.spark import event_schema
from headrace.spark.sink.writer import EventWriter, SinkOptions
from tests.builders import drain
from tests.namespaces.conftest import SignIn
from tests.spark.frames import plain_numbers, secret_file

pytestmark = pytest.mark.lane("pg18")


def write(secret: str, namespace: str) -> None:
    given = {"secret": secret, "topic": "orders", "type": "placed", "namespace": namespace}
    writer = EventWriter(SinkOptions.of(given, event_schema(["payload"]), overwrite=False))
    writer.commit([writer.write(iter([pa.record_batch({"payload": ["41", "42"]})]))])


def test_role_reads_its_own_namespace_only(sign_in: SignIn, tmp_path: Path) -> None:
    secret = secret_file(tmp_path, Target("main", sign_in(a="consume").info.dsn))
    options = {"extract": '{"n": "n"}', "toPosition": "3"}
    assert len(plain_numbers(secret, namespace="a", column="n", **options)) == 2
    with pytest.raises(UnknownTopic):
        plain_numbers(secret, namespace="b", column="n", **options)


def test_role_writes_to_its_own_namespace_only(sign_in: SignIn, stage: Connection, tmp_path: Path) -> None:
    drain(stage)
    secret = secret_file(tmp_path, Target("main", sign_in(a="publish").info.dsn))
    write(secret, "a")
    assert drain(stage) == 2
    with pytest.raises(Forbidden):
        write(secret, "b")
    assert drain(stage) == 0


def test_role_of_another_level_writes_nothing(sign_in: SignIn, tmp_path: Path) -> None:
    with pytest.raises(Forbidden):
        write(secret_file(tmp_path, Target("main", sign_in(a="consume").info.dsn)), "a")
