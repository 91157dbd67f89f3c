"""The archive of a topic as an Apache Iceberg table: the same Parquet files, listed in Iceberg's own catalog in the same PostgreSQL.

Promises: catalog entries of headrace and of Iceberg commit in one transaction, so a reader of either finds the same events. A topic that
has a table keeps it up to date in every later run. A crash leaves metadata files that nothing refers to, never a wrong table."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from psycopg.conninfo import conninfo_to_dict

from headrace.core import Forbidden, NotFound, PackageMissing
from headrace.db import Connection, Target, connect, map_database_errors, query
from headrace.log.archive.catalog import ArchivedFile, list_archive
from headrace.log.archive.parquet import file_schema
from headrace.log.topics import Topic

if TYPE_CHECKING:
    from pyiceberg.catalog.sql import SqlCatalog
    from pyiceberg.table import Table
    from sqlalchemy import URL

SCHEMA = "headrace_iceberg"
"""The schema of the database with the tables of Iceberg's SQL catalog."""
CATALOG = "headrace"
"""The name of the catalog in these tables."""
_IN_URL = ("user", "password", "host", "port", "dbname")
# Iceberg's files would otherwise hold the least and the greatest key and payload, which an erasure could not take out of old snapshots.
_METRICS = {
    "write.metadata.metrics.default": "none",
    **{f"write.metadata.metrics.column.{name}": "full" for name in ("position", "appended_at", "emitted_at")},
}
T = TypeVar("T")


def open_iceberg_catalog(target: Target) -> SqlCatalog:
    """The Iceberg catalog of a database, whose namespaces and tables are headrace's namespaces and topics. Raises NotFound if no topic
    has been archived as a table, PackageMissing without pyiceberg."""
    with connect(target) as conn:
        if not _has_schema(conn):
            raise NotFound(f"database {target} has no Iceberg tables; make one: headrace archive TOPIC --iceberg")
    return _open_catalog(target)


def has_iceberg_table(conn: Connection, topic: Topic) -> bool:
    """Whether the archive of a topic is an Iceberg table too."""
    parameters = {"catalog": CATALOG, "namespace": topic.namespace, "topic": topic.topic}
    return _has_schema(conn) and conn.execute(query("log/archive/iceberg_table"), parameters).fetchone() is not None


def _has_schema(conn: Connection) -> bool:
    return conn.execute("select to_regclass(%s) is not null", (f"{SCHEMA}.iceberg_tables",)).fetchone() == (True,)


@dataclass(frozen=True)
class CatalogWriter:
    """Writes catalog entries of one topic, each call in one transaction; with `iceberg` the topic's table commits in it too."""

    conn: Connection
    target: Target
    topic: Topic
    root: Path
    iceberg: bool = False

    @classmethod
    def for_topic(cls, conn: Connection, target: Target, topic: Topic, root: Path, *, iceberg: bool) -> CatalogWriter:
        """For a topic that has a table already, `iceberg` need not be asked for. Raises PackageMissing, Forbidden."""
        is_kept = has_iceberg_table(conn, topic)
        if iceberg and not is_kept:
            _create_schema(conn)
        writer = cls(conn, target, topic, root, iceberg or is_kept)
        if writer.iceberg:
            _require_pyiceberg(topic)
        return writer

    def write(self, record: Callable[[Connection], T]) -> T:
        """Calls `record` and, with `iceberg`, makes the table list the files that the catalog then has."""
        with map_database_errors():
            if not self.iceberg:
                return record(self.conn)
            with _transaction(_open_catalog(self.target)) as (catalog, conn):
                result = record(conn)
                files = list_archive(conn, self.topic.topic, namespace=self.topic.namespace)
                _update_table(catalog, self.topic, self.root, files)
        return result


def _require_pyiceberg(topic: Topic) -> None:
    try:
        import pyiceberg.catalog.sql  # noqa: F401
    except ImportError:
        raise PackageMissing(
            f"the archive of topic {topic.topic!r} is an Iceberg table, which needs pyiceberg; pip install 'headrace[iceberg]'"
        ) from None


def _create_schema(conn: Connection) -> None:
    with map_database_errors():
        if conn.execute("select to_regnamespace(%s) is null", (SCHEMA,)).fetchone() != (True,):
            return
        row = conn.execute("select has_database_privilege(current_database(), 'create'), current_user").fetchone()
        if row is not None and not row[0]:
            raise Forbidden(
                f"role {row[1]} may not create the schema of Iceberg's catalog; as the owner of the database run: "
                f'create schema {SCHEMA} authorization "{row[1]}"'
            )
        # The name is a constant.
        conn.execute(f"create schema if not exists {SCHEMA}".encode())


def _open_catalog(target: Target) -> SqlCatalog:
    from pyiceberg.catalog.sql import SqlCatalog

    catalog = SqlCatalog(CATALOG, uri=_url(target).render_as_string(hide_password=False))
    # Iceberg hands these properties to whatever reads files.
    catalog.properties.pop("uri")
    return catalog


def _url(target: Target) -> URL:
    from sqlalchemy import URL

    parts = {name: str(value) for name, value in conninfo_to_dict(target.dsn).items() if value is not None}
    others = {name: value for name, value in parts.items() if name not in _IN_URL}
    others["options"] = f"{others.get('options', '')} -c search_path={SCHEMA}".strip()
    host = parts.get("host", "")
    if host.startswith("/"):  # The folder of a socket is no host of a URL.
        others["host"] = host
    return URL.create(
        "postgresql+psycopg",
        username=parts.get("user"),
        password=parts.get("password"),
        host=None if host.startswith("/") else host or None,
        port=int(parts["port"]) if parts.get("port") else None,
        database=parts.get("dbname"),
        query=others,
    )


@contextmanager
def _transaction(catalog: SqlCatalog) -> Iterator[tuple[SqlCatalog, Connection]]:
    """The catalog on one connection, whose transaction commits at the end, and that connection."""
    engine = catalog.engine
    try:
        with engine.begin() as transaction:
            # Sessions of Iceberg's catalog join the transaction of this connection instead of committing one of their own.
            catalog.engine = transaction  # type: ignore[assignment]
            conn = transaction.connection.driver_connection
            assert conn is not None
            yield catalog, conn
    finally:
        catalog.engine = engine
        engine.dispose()


def _update_table(catalog: SqlCatalog, topic: Topic, root: Path, files: Sequence[ArchivedFile]) -> None:
    """One snapshot that lists exactly these files."""
    from pyiceberg.io.pyarrow import parquet_file_to_data_file

    table = _load_table(catalog, topic, root)
    wanted = {_location(Path(file.folder) / file.file) for file in files}
    present = {task.file.file_path: task.file for task in table.scan().plan_files()}
    if wanted == present.keys():
        return
    with table.transaction() as change, change.update_snapshot().overwrite() as snapshot:
        for path in sorted(present.keys() - wanted):
            snapshot.delete_data_file(present[path])
        for path in sorted(wanted - present.keys()):
            snapshot.append_data_file(parquet_file_to_data_file(table.io, table.metadata, path))


def _load_table(catalog: SqlCatalog, topic: Topic, root: Path) -> Table:
    from pyiceberg.exceptions import NoSuchTableError
    from pyiceberg.table import TableProperties

    # A topic may contain a point, so the names are not joined.
    identifier = (topic.namespace, topic.topic)
    try:
        return catalog.load_table(identifier)
    except NoSuchTableError:
        catalog.create_namespace_if_not_exists(topic.namespace)
    # Readers of a folder of Parquet files skip names that begin with an underscore.
    location = root / "_iceberg" / f"namespace={topic.namespace}" / f"topic={topic.topic}"
    table = catalog.create_table(identifier, file_schema(), location=_location(location), properties=_METRICS)
    # The files were not written for Iceberg: their columns are found by name.
    with table.transaction() as change:
        change.set_properties({TableProperties.DEFAULT_NAME_MAPPING: table.schema().name_mapping.model_dump_json()})
    return table


def _location(path: Path) -> str:
    # Iceberg takes what follows as it is: in a URI the = of our names would be %3D.
    return f"file://{path}"
