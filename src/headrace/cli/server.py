"""`headrace server`: the embedded PostgreSQL, used when no database is configured."""

from __future__ import annotations

from typer import Typer

from headrace.cli.options import Yes
from headrace.cli.session import Session, command
from headrace.core import NotFound
from headrace.db import SERVER_FOLDER, data_folder, embedded_server

group = Typer(help="The embedded PostgreSQL, used when no database is configured.")


@command(group, "start", common=("json",))
def start(session: Session) -> None:
    """Start the embedded PostgreSQL; create its data folder if needed.

    The data folder is HEADRACE_DATA, or else the project's: .headrace in the current folder, or in the nearest one above that has it,
    except the home folder.
    """
    server = embedded_server()
    server.start()
    _print_running(session, server.dsn())


@command(group, "stop", common=("json",))
def stop(session: Session) -> None:
    """Stop the embedded PostgreSQL. Committed data is kept."""
    if (data_folder() / SERVER_FOLDER).exists():
        embedded_server().stop()
    session.done("stopped", {"running": False, "dsn": None, "data": str(data_folder())})


@command(group, "status", common=("json",))
def status(session: Session) -> None:
    """Show whether the embedded PostgreSQL runs, and its address.

    The exit code is 3 when it does not run.
    """
    server = embedded_server() if (data_folder() / SERVER_FOLDER).exists() else None
    if server is None or server.pid is None:
        raise NotFound(f"no embedded server runs in {data_folder()}; run: headrace server start")
    _print_running(session, server.dsn())


@command(group, "reset", common=("json",))
def reset(session: Session, yes: Yes = False) -> None:
    """Stop the embedded PostgreSQL and delete its data, to begin again with an empty one.

    Deletes all databases of the server of this project, and nothing else.
    """
    folder = data_folder() / SERVER_FOLDER
    result = {"running": False, "dsn": None, "data": str(folder.parent)}
    if not folder.exists():
        session.done(f"there is no embedded PostgreSQL in {folder.parent}, so nothing was deleted", result)
        return
    session.confirm(f"Delete the embedded PostgreSQL with all its data in {folder}?", yes=yes)
    embedded_server().delete()
    then = "the next command starts an empty one; end nodes and consoles that used it, and start them again"
    if not session.is_embedded:
        then = "commands use the database of HEADRACE_DSN or DATABASE_URL, which was not changed"
    session.done(f"deleted {folder}; {then}", result)


def _print_running(session: Session, dsn: str) -> None:
    session.done(f"running at {dsn}, data in {data_folder()}", {"running": True, "dsn": dsn, "data": str(data_folder())})
