"""Schemas."""

from headrace.schemas.comparison import Comparison, compare
from headrace.schemas.compatibility import check_compatibility
from headrace.schemas.database_check import database_check
from headrace.schemas.findings import Finding, check_condition
from headrace.schemas.parsing import parse_schema
from headrace.schemas.value_set import accepts, read_json

__all__ = [
    "Comparison",
    "Finding",
    "accepts",
    "check_compatibility",
    "check_condition",
    "compare",
    "database_check",
    "parse_schema",
    "read_json",
]
