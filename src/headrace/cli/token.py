"""`headrace token`: access tokens of HTTP."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Annotated

from typer import Argument, BadParameter, Option, Typer

from headrace.cli.output import Column
from headrace.cli.session import Session, command
from headrace.web.http import AccessToken, NewAccessToken, Right, create_access_token, list_access_tokens, revoke_access_token

group = Typer(help="Access tokens: who may publish and read over HTTP.")

Name = Annotated[str, Argument(metavar="NAME", help="Name of the token.", show_default=False)]


@command(group, "create")
def create(
    session: Session,
    name: Name,
    publish: Annotated[bool, Option("--publish", help="Its holder may publish.")] = False,
    read: Annotated[bool, Option("--read", help="Its holder may read.")] = False,
    topic: Annotated[
        list[str] | None, Option("--topic", help="Topic, or the beginning of a name and *; repeatable.", show_default="all")
    ] = None,
    event_type: Annotated[
        list[str] | None, Option("--type", help="Event type, or the beginning of a name and *; repeatable.", show_default="all")
    ] = None,
    days: Annotated[float | None, Option(min=0.001, help="Days until it expires.", show_default="never")] = None,
    rate_per_s: Annotated[float | None, Option(min=0.001, help="Most events per second.", show_default="1000")] = None,
) -> None:
    """Create an access token, on every shard, and print it. It cannot be shown again: only its SHA-256 is stored.

    Example: headrace token create shop --publish --topic orders --type 'order.*' --days 90
    """
    rights: list[Right] = [*(["publish"] if publish else []), *(["read"] if read else [])]  # type: ignore[list-item]
    if not rights:
        raise BadParameter("give --publish, --read or both")
    token = NewAccessToken.generate()
    expires_at = None if days is None else datetime.now(UTC) + timedelta(days=days)
    session.on_every_shard(
        session.bind(
            create_access_token,
            name,
            rights,
            topics=topic,
            event_types=event_type,
            expires_at=expires_at,
            rate_per_s=rate_per_s,
            token=token,
        )
    )
    session.done(token.token, {"name": name, "token": token.token, "expires_at": expires_at})


@command(group, "list")
def list_(session: Session) -> None:
    """List the access tokens of the namespace, also revoked ones."""
    tokens = session.collect(session.bind(list_access_tokens))
    names: list[Column] = [
        ("topics", lambda token: token.topics or "all"),
        ("event types", lambda token: token.event_types or "all"),
    ]
    times: list[Column] = [("expires", lambda token: token.expires_at or "never"), ("last used", "last_used_at")]
    session.show(["name", "rights", *names, *times, ("state", _state)], tokens)


@command(group, "revoke")
def revoke(session: Session, name: Name) -> None:
    """Revoke an access token, on every shard. Servers reject it within seconds, and end its event streams."""
    session.on_every_shard(session.bind(revoke_access_token, name))
    session.done(f"access token {name} is revoked", {"name": name})


def _state(token: AccessToken) -> str:
    if token.revoked_at is not None:
        return "revoked"
    return "expired" if token.expires_at is not None and token.expires_at <= datetime.now(UTC) else "valid"
