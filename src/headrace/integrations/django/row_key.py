"""A primary key for views, which have none: Django and its admin need one column that identifies a row."""

from __future__ import annotations

from typing import Any

from django.db import models
from django.db.models.expressions import Col


class RowKey(models.TextField):  # type: ignore[type-arg]
    """The columns that together identify a row, joined by slashes. It is computed in queries; the view needs no such column."""

    def __init__(self, *columns: str, **_options: object) -> None:
        self.columns = columns
        super().__init__(primary_key=True, editable=False)

    def deconstruct(self) -> Any:
        """As Django's migrations write it down."""
        name, path, _arguments, _options = super().deconstruct()
        return name, path, list(self.columns), {}

    def get_col(self, alias: Any, output_field: Any = None) -> Any:
        """What a query selects and compares for this field."""
        return _JoinedColumns(alias, self, output_field)


class _JoinedColumns(Col):
    target: RowKey

    def as_sql(self, compiler: Any, connection: Any) -> Any:
        statement, parameters = super().as_sql(compiler, connection)
        table = statement.rpartition(".")[0]
        columns = ", ".join(f"{table}.{connection.ops.quote_name(column)}" for column in self.target.columns)
        return f"concat_ws('/', {columns})", parameters
