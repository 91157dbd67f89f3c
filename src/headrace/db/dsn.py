"""Addresses of databases: what is accepted, and errors that never repeat any part of them.

libpq's own errors quote the address, or a piece of the password that it took for something else; so none of them is passed on."""

from __future__ import annotations

import re
from contextlib import suppress
from urllib.parse import quote, urlencode

import psycopg
from psycopg.conninfo import conninfo_to_dict

from headrace.core import Invalid

_SCHEME = re.compile(r"([a-z][a-z0-9]*)(\+[a-z0-9_]+)?://", re.IGNORECASE)
_ENCODE = "in user and password write %25 for %, %40 for @, %2F for /, %3F for ? and %20 for a space"
_FORM = "write postgresql://user@host:5432/database"


def strip_driver(dsn: str) -> str:
    """The address as libpq reads it: SQLAlchemy's `postgresql+driver://` and `postgres://` become `postgresql://`."""
    match = _SCHEME.match(dsn.strip())
    if match is None or match[1].lower() not in ("postgres", "postgresql"):
        return dsn.strip()
    return "postgresql://" + dsn.strip()[match.end() :]


def to_url(dsn: str) -> str:
    """The address as a URL, which every driver and ORM takes. A socket's folder and all other options are parameters of the URL."""
    parts = read_dsn(dsn, "the URL")
    user, password = (quote(parts.pop(part, ""), safe="") for part in ("user", "password"))
    host = "" if parts.get("host", "").startswith("/") else parts.pop("host", "")
    port, database = parts.pop("port", ""), quote(parts.pop("dbname", ""), safe="")
    if "," in host or "," in port:
        raise Invalid("an address with several hosts has no form that every driver reads; name one host")
    account = (f"{user}:{password}" if password else user) + ("@" if user else "")
    address = f"[{host}]" if ":" in host else host
    options = f"?{urlencode(parts, quote_via=quote)}" if parts else ""
    return f"postgresql://{account}{address}{f':{port}' if port else ''}/{database}{options}"


def read_dsn(dsn: str, name: str) -> dict[str, str]:
    """The parts of an address. Raises Invalid, without any part of it: a misread password could be among them."""
    parts: dict[str, str] | None = None
    # The error is raised below, outside this block: otherwise its context would keep the text.
    with suppress(psycopg.Error, UnicodeError):
        parts = {key: str(value) for key, value in conninfo_to_dict(strip_driver(dsn)).items() if value is not None}
    problem = _problem(strip_driver(dsn), parts)
    if parts is None or problem is not None:
        raise Invalid(f"the address of database {name!r} is invalid: {problem}")
    return parts


def _problem(dsn: str, parts: dict[str, str] | None) -> str | None:
    scheme = _SCHEME.match(dsn)
    if scheme and scheme[1].lower() != "postgresql":
        return f"it is not one of PostgreSQL; {_FORM}"
    if scheme is None:
        # In key=value form nothing can be mistaken for something else.
        return None if parts is not None else f"it is neither a URL nor key=value pairs; {_FORM}"
    if re.search(r"\s", dsn):
        return f"it contains white space; {_ENCODE}"
    if re.search(r"%(?![0-9a-f]{2})|%00", dsn, re.IGNORECASE):
        return f"it contains a % that is not followed by two hexadecimal digits; {_ENCODE}"
    if parts is None:
        return f"it is not a URL that PostgreSQL's client reads; check its parameters after the ?; {_ENCODE}"
    host, port, database = (parts.get(part, "") for part in ("host", "port", "dbname"))
    if "@" in host + database or not re.fullmatch(r"[\d,]*", port):
        return f"its host, port or database name cannot be told from its password; {_ENCODE}"
    return None
