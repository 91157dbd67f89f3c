"""Match: rules over DataFrames. Each field of an event is extracted once, whatever the number of rules."""

from headrace.spark.match.definitions import AnyRule, rule_specs
from headrace.spark.match.matching import cached_plan, check_columns, check_types, match, with_emitted_at

__all__ = [
    "AnyRule",
    "cached_plan",
    "check_columns",
    "check_types",
    "match",
    "rule_specs",
    "with_emitted_at",
]
