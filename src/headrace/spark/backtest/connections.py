"""Read-only addresses, and a secret file that passes them to Spark's processes."""

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
    """The same database, with sessions that cannot write."""
    if "://" not in target.dsn:
        options = conninfo_to_dict(target.dsn).get("options") or ""
        return Target(target.name, make_conninfo(target.dsn, options=f"{options} {_READ_ONLY}".strip()))
    parts = urlsplit(target.dsn)
    parameters = dict(parse_qsl(parts.query))
    parameters["options"] = f"{parameters.get('options', '')} {_READ_ONLY}".strip()
    return Target(target.name, urlunsplit(parts._replace(query=urlencode(parameters, quote_via=quote))))


@contextmanager
def secret_file(targets: Sequence[Target]) -> Iterator[str]:
    """A file with the addresses, for the time of the block; only this user can read it."""
    text = targets[0].dsn if len(targets) == 1 else " ".join(f"{target.name}={target.dsn}" for target in targets)
    with tempfile.TemporaryDirectory(prefix="headrace-backtest-") as folder:
        path = Path(folder) / "addresses"
        path.touch(mode=0o600)
        path.write_text(text, encoding="utf-8")
        yield str(path)
