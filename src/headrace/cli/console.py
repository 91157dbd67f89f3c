"""`headrace console`: the web console."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Option, Typer

from headrace.cli.options import CONSOLE_PORT
from headrace.cli.session import Session, command
from headrace.core import Address, Invalid
from headrace.db import Target

if TYPE_CHECKING:
    from headrace.web.console import ConsoleSettings

group = Typer()


@command(group, "console", common=("dsn", "json"))
def console(
    session: Session,
    host: Annotated[str, Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, Option(help="Port to listen on.", min=0, max=65535)] = CONSOLE_PORT,
    config: Annotated[Path | None, Option(help="TOML file with logins, roles, hosts and masks; see docs/console.md.")] = None,
    read_only: Annotated[bool, Option("--read-only", help="Reject every change.")] = False,
    base_path: Annotated[str, Option(help="Path in front of all pages, such as /headrace.")] = "",
    ingest: Annotated[
        bool, Option("--ingest", help="Also take events and webhooks by HTTP below /ingest; see docs/http.md.")
    ] = False,
    new_token: Annotated[
        str | None, Option("--new-token", metavar="NAME", help="Print a token for a person, and its lines for the TOML file.")
    ] = None,
) -> None:
    """Open the web console: events, consumers, rules, actions and nodes of every shard.

    On 127.0.0.1 with the embedded PostgreSQL there is no login. With another database it prints a token to sign in with, and on
    any other address it does not start without logins in --config.

    Examples: headrace console · headrace console --host 0.0.0.0 --config console.toml · headrace console --new-token ada
    """
    try:
        from headrace.web.console import new_token as make_token
    except ModuleNotFoundError as error:
        raise Invalid(f"the console needs the package {error.name!r}; install it: pip install 'headrace[console]'") from error
    if new_token is not None:
        token, digest = make_token()
        lines = f'# The token of {new_token}, shown only now: {token}\n[[token]]\nname = "{new_token}"\nsha256 = "{digest}"\nrole = "…"'
        session.print({"name": new_token, "token": token, "sha256": digest}, lines)
        return
    settings, own_token = _settings(session, host, config, read_only=read_only)
    settings = replace(settings, ingest=settings.ingest or ingest)
    _serve(session, session.targets, settings, host=host, port=port, base_path=base_path, token=own_token)


def serve_demo(session: Session, target: Target, *, is_embedded: bool) -> None:
    """Serves the console on 127.0.0.1 for the demo's database until Ctrl-C; without a login only if the demo started the server."""
    from headrace.web.console import ConsoleSettings

    settings, token = (ConsoleSettings(), None) if is_embedded else _with_own_token(ConsoleSettings())
    _serve(session, [target], settings, host="127.0.0.1", port=CONSOLE_PORT, base_path="", token=token)


def _settings(session: Session, host: str, config: Path | None, *, read_only: bool) -> tuple[ConsoleSettings, str | None]:
    """The settings, with a login that fits the address, and the token that was made for it."""
    from headrace.web.console import ConsoleSettings, NoLogin, read_settings

    settings = read_settings(config) if config else ConsoleSettings()
    if read_only:
        settings = replace(settings, read_only=True)
    if not isinstance(settings.login, NoLogin):
        return settings, None
    if not Address(host, 0).is_loopback:
        raise Invalid(
            f"the console does not listen on {host} without a login: whoever reaches it could change everything. "
            "Add tokens or a proxy to the file of --config (headrace console --new-token NAME prints the lines), or listen on 127.0.0.1"
        )
    return (settings, None) if session.is_embedded else _with_own_token(settings)


def _with_own_token(settings: ConsoleSettings) -> tuple[ConsoleSettings, str]:
    """A token that is made for this run."""
    from headrace.web.console import TokenLogin, User, new_token

    token, digest = new_token()
    return replace(settings, login=TokenLogin({digest: User("operator")})), token


def _serve(
    session: Session,
    targets: Sequence[Target],
    settings: ConsoleSettings,
    *,
    host: str,
    port: int,
    base_path: str,
    token: str | None,
) -> None:
    import uvicorn

    from headrace.web.console import create_app
    from headrace.web.http import server_config

    app = create_app(targets, settings, base_path=base_path)
    config = server_config(app, host=host, port=port)
    server = uvicorn.Server(config)
    socket = config.bind_socket()
    url = f"http://{Address(host, socket.getsockname()[1])}{base_path.rstrip('/')}/"
    sign_in = f"To sign in, use this token: {token}\n" if token else ""
    session.print({"url": url, "token": token}, f"{sign_in}The console is at {url} (Ctrl-C ends it)")
    sys.stdout.flush()
    server.run(sockets=[socket])
