"""Addresses whose sessions cannot write, and a secret file that tells them to Spark's processes."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import parse_qsl, quote, urlencode, urlsplit, urlunsplit

from psycopg.conninfo import conninfo_to_dict, make_conninfo

from headrace.db import Target

_READ_ONLY = "-c default_transaction_read_only=on"


def read_only(target: Target) -> Target:
    """The same database, in sessions that refuse to write."""
    if "://" not in target.dsn:
        told = conninfo_to_dict(target.dsn).get("options")
        return Target(target.name, make_conninfo(target.dsn, options=f"{told or ''} {_READ_ONLY}".strip()))
    parts = urlsplit(target.dsn)
    given = dict(parse_qsl(parts.query))
    given["options"] = f"{given.get('options', '')} {_READ_ONLY}".strip()
    return Target(target.name, urlunsplit(parts._replace(query=urlencode(given, quote_via=quote))))


@contextmanager
def told_to_spark(targets: Sequence[Target]) -> Iterator[str]:
    """A secret file with the addresses, for as long as the block runs; readable by this user alone."""
    text = targets[0].dsn if len(targets) == 1 else " ".join(f"{target.name}={target.dsn}" for target in targets)
    with tempfile.TemporaryDirectory(prefix="headrace-backtest-") as folder:
        path = Path(folder) / "addresses"
        path.touch(mode=0o600)
        path.write_text(text, encoding="utf-8")
        yield str(path)
