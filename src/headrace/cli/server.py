"""`headrace server`: the embedded PostgreSQL that serves where no database is configured."""

from __future__ import annotations

import typer

from headrace.cli.session import Session, command
from headrace.core import NotFound
from headrace.db import data_folder, embedded_server

group = typer.Typer(help="The embedded PostgreSQL, which serves where no database is configured.")


@command(group, "start", common=("json",))
def start(session: Session) -> None:
    """Start it, making its data folder first if need be. Data: HEADRACE_DATA, else the user's data folder."""
    server = embedded_server()
    server.start()
    session.done(f"running at {server.dsn()}, data in {server.folder}", _state(running=True, dsn=server.dsn()))


@command(group, "stop", common=("json",))
def stop(session: Session) -> None:
    """Stop it. Nothing that was committed is lost."""
    if data_folder().exists():
        embedded_server().stop()
    session.done("stopped", _state(running=False))


@command(group, "status", common=("json",))
def status(session: Session) -> None:
    """Say whether it runs, and where; exit code 3 when it does not."""
    server = embedded_server() if data_folder().exists() else None
    if server is None or server.pid is None:
        raise NotFound(f"no embedded server runs on {data_folder()}; start it: headrace server start")
    session.done(f"running at {server.dsn()}, data in {server.folder}", _state(running=True, dsn=server.dsn()))


def _state(*, running: bool, dsn: str | None = None) -> dict[str, str | bool | None]:
    return {"running": running, "dsn": dsn, "data": str(data_folder())}
