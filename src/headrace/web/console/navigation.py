"""Navigation: the pages in the sidebar, with the keys that open them after `g`."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Link:
    """An entry of the sidebar."""

    label: str
    path: str
    key: str


NAVIGATION: tuple[tuple[str, tuple[Link, ...]], ...] = (
    ("", (Link("Now", "/", "h"),)),
    ("Events", (Link("Events", "/events", "e"), Link("Topics", "/topics", "t"), Link("Consumers", "/consumers", "c"))),
    (
        "Reactions",
        (
            Link("Rules", "/rules", "r"),
            Link("Correlators", "/correlators", "p"),
            Link("Schedules", "/schedules", "s"),
        ),
    ),
    (
        "Integrations",
        (Link("Relays", "/relays", "l"), Link("Hooks", "/hooks", "w"), Link("Access tokens", "/access-tokens", "k")),
    ),
    ("Work", (Link("Actions", "/actions", "a"), Link("Dead letters", "/dead-letters", "d"), Link("Nodes", "/nodes", "n"))),
)
"""Groups of entries: heading and links."""
