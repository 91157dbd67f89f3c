"""`headrace hook`: addresses for webhooks of other systems."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

import msgspec
from typer import Argument, BadParameter, Option, Typer

from headrace.cli.options import TopicName, Yes
from headrace.cli.session import Session, command, facts_table
from headrace.core import UnknownHook, describe_secret_source
from headrace.web.http import alter_hook, create_hook, describe_mapping, drop_hook, get_hook, list_hooks

group = Typer(help="Hooks: addresses where other systems send their webhooks, which become events.")

Name = Annotated[str, Argument(metavar="HOOK", help="Name of the hook.", show_default=False)]
Secrets = Annotated[
    list[str],
    Option(
        "--secret",
        metavar="REFERENCE",
        help="Where the server finds the secret: env:NAME or file:name; repeatable while one replaces another.",
        show_default=False,
    ),
]
MappingOption = Annotated[
    str | None, Option(help='JSON, such as {"type": "github.{header:x-github-event}"}.', show_default="that of the scheme")
]
Window = Annotated[float | None, Option("--window-s", min=1, help="Seconds for which a signed time counts.", show_default="300")]


@command(group, "create")
def create(
    session: Session,
    name: Name,
    topic: TopicName,
    scheme: Annotated[
        str,
        Option(
            help="How the sender signs: standard-webhooks, github, stripe, token, or a scheme of an installed package.",
            show_default=False,
        ),
    ],
    secret: Secrets,
    mapping: MappingOption = None,
    window_s: Window = None,
) -> None:
    """Create a hook, on every shard. Its address is /hooks/NAMESPACE/HOOK of every server that takes events by HTTP.

    The secret stays with the server: env:GITHUB in namespace shop is its variable HEADRACE_SECRET_SHOP__GITHUB, file:github its
    file shop.github in HEADRACE_SECRETS.

    Example: headrace hook create github code --scheme github --secret env:GITHUB
    """
    templates = _read_mapping(mapping)
    session.on_every_shard(session.bind(create_hook, name, topic, scheme, secret, mapping=templates, window_s=window_s or 300))
    path = f"/hooks/{session.namespace or 'default'}/{name}"
    sources = [describe_secret_source(reference, session.namespace or "default") for reference in secret]
    message = f"hook {name} takes webhooks at {path}\nthe server reads its secret from {' or '.join(sources)}"
    session.done(message, {"hook": name, "path": path, "secrets": sources})


@command(group, "alter")
def alter(
    session: Session,
    name: Name,
    topic: Annotated[str | None, Option(help="Topic of its events.")] = None,
    secret: Annotated[list[str] | None, Option("--secret", metavar="REFERENCE", help="All references, the newest first.")] = None,
    mapping: MappingOption = None,
    window_s: Window = None,
    active: Annotated[bool | None, Option("--active/--inactive", help="Take webhooks, or answer 404.")] = None,
) -> None:
    """Change a hook, on every shard.

    To rotate a secret: name the new and the old reference, change the sender, then name the new one only.

    Example: headrace hook alter github --secret env:GITHUB_NEW --secret env:GITHUB
    """
    if topic is None and not secret and mapping is None and window_s is None and active is None:
        raise BadParameter("give --topic, --secret, --mapping, --window-s, --active or --inactive")
    templates = None if mapping is None else _read_mapping(mapping)
    session.on_every_shard(
        session.bind(alter_hook, name, topic=topic, secrets=secret, mapping=templates, window_s=window_s, active=active)
    )
    session.done(f"hook {name} is changed", {"hook": name})


@command(group, "list")
def list_(session: Session) -> None:
    """List the hooks of the namespace."""
    hooks = session.collect(session.bind(list_hooks))
    session.show(["hook", "topic", "scheme", "secrets", "active"], hooks)


@command(group, "show")
def show(session: Session, name: Name) -> None:
    """Show one hook with its whole mapping."""
    target, hook = session.find(UnknownHook, session.bind(get_hook, name))
    facts: dict[str, object] = msgspec.to_builtins(hook, builtin_types=(datetime,))
    facts["mapping"] = describe_mapping(hook.scheme, hook.mapping)
    session.print({"shard": target.name} | facts, facts_table(f"hook {name}", target, facts))


@command(group, "drop")
def drop(session: Session, name: Name, yes: Yes = False) -> None:
    """Drop a hook, on every shard. Its events stay."""
    session.confirm(f"drop hook {name}?", yes=yes)
    session.on_every_shard(session.bind(drop_hook, name))
    session.done(f"hook {name} is dropped", {"hook": name})


def _read_mapping(text: str | None) -> dict[str, str]:
    if text is None:
        return {}
    try:
        return msgspec.json.decode(text, type=dict[str, str])
    except msgspec.DecodeError as error:
        raise BadParameter(f"not a JSON object of texts: {error}", param_hint="--mapping") from None
