"""Options and arguments that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

PANEL = "Common options"
COMMON_OPTIONS: dict[str, tuple[object, object]] = {
    "dsn": (
        Annotated[
            str | None,
            typer.Option("--dsn", help="Database, instead of HEADRACE_DSN; shards as 'name=address …'.", rich_help_panel=PANEL),
        ],
        None,
    ),
    "namespace": (
        Annotated[
            str | None,
            typer.Option("--namespace", help="Namespace, instead of 'default'.", rich_help_panel=PANEL),
        ],
        None,
    ),
    "json": (Annotated[bool, typer.Option("--json", help="Print JSON.", rich_help_panel=PANEL)], False),
}
"""The options that the decorator `command` adds: annotation and default."""

TopicName = Annotated[str, typer.Argument(metavar="TOPIC", help="Name of the topic.", show_default=False)]
OptionalTopic = Annotated[str | None, typer.Argument(metavar="TOPIC", help="Only this topic.", show_default=False)]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Only show what would happen.")]
Strict = Annotated[bool, typer.Option("--strict", help="Count warnings as problems.")]
Types = Annotated[list[str] | None, typer.Option("--type", help="Only this event type; repeatable.")]
From = Annotated[str, typer.Option("--from", help="Start: earliest, a position or a time.")]
To = Annotated[str, typer.Option("--to", help="End (exclusive): latest, a position or a time.")]
ArchiveFolder = Annotated[
    Path | None,
    typer.Option("--folder", envvar="HEADRACE_ARCHIVE", help="Folder of the archive.", show_default="as recorded"),
]
