"""Options and arguments that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from typer import Argument, Option

PANEL = "Common options"
CONSOLE_PORT = 8642
"""The port of the web console."""
COMMON_OPTIONS: dict[str, tuple[object, object]] = {
    "dsn": (
        str | None,
        Option(None, "--dsn", help="Database, instead of HEADRACE_DSN; shards as 'name=address …'.", rich_help_panel=PANEL),
    ),
    "namespace": (str | None, Option(None, "--namespace", help="Namespace, instead of 'default'.", rich_help_panel=PANEL)),
    "json": (bool, Option(False, "--json", help="Print JSON.", rich_help_panel=PANEL)),
}
"""The options that the decorator `command` adds: annotation and default."""

TopicName = Annotated[str, Argument(metavar="TOPIC", help="Name of the topic.", show_default=False)]
OptionalTopic = Annotated[str | None, Argument(metavar="TOPIC", help="Only this topic.", show_default=False)]
Yes = Annotated[bool, Option("--yes", "-y", help="Do not ask for confirmation.")]
DryRun = Annotated[bool, Option("--dry-run", help="Only show what would happen.")]
Strict = Annotated[bool, Option("--strict", help="Count warnings as problems.")]
Types = Annotated[list[str] | None, Option("--type", help="Only this event type; repeatable.")]
From = Annotated[str, Option("--from", help="Start: earliest, a position or a time.")]
To = Annotated[str, Option("--to", help="End (exclusive): latest, a position or a time.")]
ArchiveFolder = Annotated[
    Path | None, Option("--folder", envvar="HEADRACE_ARCHIVE", help="Folder of the archive.", show_default="as recorded")
]
