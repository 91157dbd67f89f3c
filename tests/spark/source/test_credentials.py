"""No plan, partition, log or message shows an address or a password."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from pyspark.serializers import CloudPickleSerializer
from pyspark.sql import SparkSession

from headrace.core import DatabaseUnavailable, HeadraceError, Invalid, NotFound
from headrace.db import Connection, Target
from headrace.spark.data_source import HeadraceSource
from tests.builders import drain, topic
from tests.spark.reading import load, numbers, publish_numbers, read_numbers, secret_file

pytestmark = pytest.mark.lane("pg18")
PASSWORD = "zq9-Geheim-wort"


@pytest.fixture
def guarded(database: Target, conn: Connection) -> Target:
    """The test's database with three events, by an address with a password."""
    topic(conn)
    publish_numbers(conn, 3)
    drain(conn)
    return Target("main", make_conninfo(database.dsn, password=PASSWORD))


def service_file(folder: Path, name: str, target: Target) -> str:
    path = folder / "services.conf"
    lines = [f"{key}={value}" for key, value in conninfo_to_dict(target.dsn).items()]
    path.write_text("\n".join([f"[{name}]", *lines, ""]))
    return str(path)


def test_plan_holds_no_password(spark: SparkSession, guarded: Target, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    frame = load(spark, secret_file(tmp_path, guarded))
    assert numbers(frame) == [1, 2, 3]
    frame.explain(extended=True)
    text = capsys.readouterr().out + frame._jdf.queryExecution().toString() + str(spark.sparkContext.getConf().getAll())
    assert "headrace" in text and PASSWORD not in text
    assert str(conninfo_to_dict(guarded.dsn)["dbname"]) not in text


def test_pickled_source_reader_and_partitions_hold_no_password(guarded: Target, tmp_path: Path) -> None:
    source = HeadraceSource({"secret": secret_file(tmp_path, guarded), "subscribe": "orders", "minPartitions": "2"})
    reader, stream = source.reader(source.schema()), source.streamReader(source.schema())
    stream.initialOffset()  # It has its connections now.
    parts = [source, reader, stream, *reader.partitions()]
    assert len(parts) == 5 and sum(batch.num_rows for part in parts[3:] for batch in reader.read(part)) == 3
    for part in parts:
        assert PASSWORD.encode() not in CloudPickleSerializer().dumps(part)
        assert isinstance(pickle.loads(CloudPickleSerializer().dumps(part)), type(part))


@pytest.mark.parametrize("way", ["HEADRACE_DSN", "dsnEnv", "secret", "serviceFile", "PGSERVICEFILE"])
def test_every_way_to_name_the_database_works(guarded: Target, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: str) -> None:
    options = {"subscribe": "orders"}
    monkeypatch.delenv("DATABASE_URL", raising=False)
    if way == "HEADRACE_DSN":
        monkeypatch.setenv("HEADRACE_DSN", guarded.dsn)
    elif way == "dsnEnv":
        monkeypatch.setenv("SHOP", guarded.dsn)
        options["dsnEnv"] = "SHOP"
    elif way == "secret":
        monkeypatch.setenv("HEADRACE_SECRETS", str(tmp_path))
        options["secret"] = Path(secret_file(tmp_path, guarded)).name
    elif way == "serviceFile":
        options |= {"service": "shop", "serviceFile": service_file(tmp_path, "shop", guarded)}
    else:
        monkeypatch.setenv("PGSERVICEFILE", service_file(tmp_path, "shop", guarded))
        options["service"] = "shop"
    source = HeadraceSource(options)
    reader = source.reader(source.schema())
    assert sum(batch.num_rows for part in reader.partitions() for batch in reader.read(part)) == 3


@pytest.mark.parametrize(
    ("address", "error"),
    [
        (f"postgresql://shop:{PASSWORD}@127.0.0.1:1/shop", DatabaseUnavailable),
        (f"postgresql://shop:{PASSWORD}%zz@127.0.0.1/shop", Invalid),
        (f"postgresql:/shop:{PASSWORD}@127.0.0.1/shop", Invalid),
        (f"host=127.0.0.1 password={PASSWORD} password", Invalid),
    ],
)
def test_errors_about_an_address_do_not_show_it(tmp_path: Path, address: str, error: type[HeadraceError]) -> None:
    with pytest.raises(error) as raised:
        read_numbers(secret_file(tmp_path, Target("main", address)))
    chain: BaseException | None = raised.value
    while chain is not None:
        assert PASSWORD not in f"{chain!r} {chain}"
        chain = None if chain.__suppress_context__ else chain.__context__


def test_error_of_a_task_does_not_show_the_address(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(Exception, match="DatabaseUnavailable") as raised:
        load(spark, secret_file(tmp_path, Target("main", f"postgresql://shop:{PASSWORD}@127.0.0.1:1/shop"))).collect()
    assert PASSWORD not in str(raised.value)


@pytest.mark.parametrize(
    "options",
    [
        {"dsn": f"postgresql://shop:{PASSWORD}@db/shop"},
        {"url": f"postgresql://shop:{PASSWORD}@db/shop"},
        {"password": PASSWORD},
        {"secret": f"postgresql://shop:{PASSWORD}@db/shop"},
        {"service": f"postgresql://shop:{PASSWORD}@db/shop"},
    ],
)
def test_address_as_an_option_is_rejected_without_repeating_it(options: dict[str, str]) -> None:
    with pytest.raises(Invalid) as raised:
        HeadraceSource({"subscribe": "orders", **options})
    assert PASSWORD not in str(raised.value)


def test_missing_secret_is_reported_with_its_path(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HEADRACE_SECRETS", str(tmp_path))
    with pytest.raises(NotFound, match=f"looks for the file {tmp_path}/absent"):
        read_numbers("absent")
