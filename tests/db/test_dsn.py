"""Addresses: SQLAlchemy's are accepted, and no error repeats any part of a wrong one."""

from __future__ import annotations

import os
import subprocess
import sys
import traceback

import pytest
from psycopg.conninfo import conninfo_to_dict

from headrace.cli.session import Session
from headrace.core import HeadraceError, Invalid, redact
from headrace.db import Connection, Target, configured_targets, connect, create_pool, parse_targets, to_url
from headrace.spark.credentials import Access

SECRETS = ("s3cr", "t0p")
WRONG = [
    "postgresql://me:s3cr t0p@host/db",
    "postgresql://me:s3cr%t0p@host/db",
    "postgresql://me:s3cr%zzt0p@host/db",
    "postgresql://me:s3cr%00t0p@host/db",
    "postgresql://me:s3cr@t0p@host/db",
    "postgresql://me:s3cr/t0p@host/db",
    "postgresql://me:s3crt0p@host/db?t0p=1",
    "postgresql+asyncpg://me:s3cr t0p@host/db",
    "postgresql+psycopg://me:s3cr%t0p@host:5432/db",
    "mysql://me:s3crt0p@host/db",
    "://me:s3crt0p@host/db",
    "me:s3crt0p@host/db",
    "host=h password='s3cr t0p",
    "host=h pasword=s3crt0p",
    "a=postgresql://me:s3cr%t0p@host/db b=postgresql://me@host/db",
]


def texts_of(error: BaseException | None) -> str:
    """Everything that can be read of an error: its message, notes, causes and contexts, suppressed or not."""
    if error is None:
        return ""
    own = "".join(traceback.format_exception(error)) + repr(error) + "".join(getattr(error, "__notes__", []))
    return own + texts_of(error.__cause__) + texts_of(error.__context__)


@pytest.mark.parametrize("dsn", WRONG)
def test_error_of_a_wrong_address_shows_no_part_of_it(dsn: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADRACE_DSN", dsn)
    target = Target("main", dsn.partition("b=")[0].removeprefix("a="))
    calls = [
        lambda: parse_targets(dsn),
        lambda: Session(dsn=dsn).targets,
        lambda: Access().targets(),
        lambda: str(target),
        lambda: connect(target).__enter__(),
        lambda: create_pool(target, size=1),
    ]
    for call in calls:
        with pytest.raises(HeadraceError) as caught:
            call()
        # The traceback shows the source line of the call, so the secrets are not written in it.
        assert not any(secret in texts_of(caught.value) for secret in SECRETS), caught.value
    assert not any(secret in repr(target) + repr(Session(dsn=dsn)) for secret in SECRETS)


@pytest.mark.parametrize("way", ["--dsn", "HEADRACE_DSN", "DATABASE_URL"])
@pytest.mark.parametrize("words", [("topic", "list"), ("demo",), ("node", "run")])
def test_program_shows_no_part_of_a_wrong_address(way: str, words: tuple[str, ...]) -> None:
    if words == ("demo",) and way != "--dsn":
        pytest.skip("the demo uses its own server")
    dsn = "postgresql+asyncpg://me:s3cr%t0p@127.0.0.1:1/db"
    environment = {name: value for name, value in os.environ.items() if name not in ("HEADRACE_DSN", "DATABASE_URL")}
    options = ["--dsn", dsn] if way == "--dsn" else []
    environment |= {way: dsn} if way != "--dsn" else {}
    command = [sys.executable, "-m", "headrace", *words, *options]
    answer = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=60, check=False)
    assert answer.returncode == 5 and "%25 for %" in answer.stderr
    assert not any(secret in answer.stdout + answer.stderr for secret in SECRETS)


@pytest.mark.lane("pg18")
@pytest.mark.parametrize("scheme", ["postgres", "postgresql", "postgresql+asyncpg", "postgresql+psycopg", "PostgreSQL+psycopg2"])
def test_schemes_of_sqlalchemy_are_accepted(conn: Connection, database: Target, scheme: str) -> None:
    parts = conninfo_to_dict(database.dsn)
    url = f"{scheme}://{parts.get('user') or ''}@/{parts['dbname']}?host={parts['host']}" + (
        f"&port={parts['port']}" if "port" in parts else ""
    )
    for text in (url, f"  {url}\n", f"a={url}"):
        (target,) = parse_targets(text)
        with connect(target) as own:
            assert own.execute("select current_database()").fetchone() == (parts["dbname"],)
    with connect(Target("own", url)) as own:
        assert own.info.dbname == parts["dbname"]


@pytest.mark.lane("pg18")
def test_database_url_of_sqlalchemy_is_read_where_headrace_dsn_is_not_set(conn: Connection, database: Target) -> None:
    url = database.dsn.replace("postgresql://", "postgresql+asyncpg://")
    assert url != database.dsn
    for environment in (
        {"DATABASE_URL": url},
        {"HEADRACE_DSN": "", "DATABASE_URL": url},
        {"HEADRACE_DSN": url, "DATABASE_URL": "x"},
    ):
        (target,) = configured_targets(environment)
        with connect(target) as own:
            assert own.execute("select current_database()").fetchone() == (conn.info.dbname,)


def test_encoded_passwords_are_accepted() -> None:
    (target,) = parse_targets("postgres://me:%20%25%40%2F@host:5432/db")
    assert str(target) == "main (host:5432/db)" and conninfo_to_dict(target.dsn)["password"] == " %@/"


def test_invalid_address_says_what_to_write() -> None:
    with pytest.raises(Invalid, match=r"^the address of database 'main' is invalid: it contains white space; .*%20 for a space"):
        parse_targets("postgresql://me:a b@host/db")


def test_redaction_keeps_the_rest() -> None:
    text = "cannot reach postgresql+asyncpg://me:a b@c@host:1/db, host=h password='x\\' y' port=1 and password=z"
    assert redact(text) == "cannot reach postgresql+asyncpg://me:***@host:1/db, host=h password=*** port=1 and password=***"


@pytest.mark.parametrize(
    ("dsn", "url"),
    [
        ("host=db user=me dbname=shop port=5433", "postgresql://me@db:5433/shop"),
        ("postgresql://me:p%40ss@db/shop?sslmode=require", "postgresql://me:p%40ss@db/shop?sslmode=require"),
        ("host=/run/pg user=me dbname='my shop'", "postgresql://me@/my%20shop?host=%2Frun%2Fpg"),
        ("host=::1 dbname=shop", "postgresql://[::1]/shop"),
    ],
)
def test_url_leads_to_the_same_database(dsn: str, url: str) -> None:
    assert to_url(dsn) == url
    assert conninfo_to_dict(to_url(dsn)) == conninfo_to_dict(dsn)
