"""Conditions: the SQL predicate of a rule, over one event.

Owns: the language, from text to tree, and its printers for PostgreSQL and Python. Promises: user text is never
executed, only our own tree printed again; all engines give the same answer (true, false or unknown) for the
same event; no condition ever raises at run time. See docs/conditions.md for the language.
"""

from headrace.lang.condition.access import find_prefix
from headrace.lang.condition.comparison import (
    ClauseValue,
    ConditionComparison,
    Difference,
    TruthSpace,
    compare_conditions,
    describe_difference,
    explain,
    value_text,
)
from headrace.lang.condition.condition import Condition, canonical_text, parse, parse_scalar, parse_value, parse_with_names
from headrace.lang.condition.corpus import (
    CorpusError,
    Engine,
    Outcome,
    SqlDialect,
    TruthTable,
    evaluate_pairs,
    evaluate_sql,
    load_cases,
    load_corpus,
    python_engine,
    read_sample,
    run_cases,
    sample_rows,
)
from headrace.lang.condition.errors import ConditionError, Diagnostic, locate_error
from headrace.lang.condition.postgres_printer import field_to_postgres, text_to_postgres, to_postgres
from headrace.lang.condition.postgres_printer import literal as postgres_literal
from headrace.lang.condition.python_printer import Evaluate, compile_field, compile_node, to_bigint, to_numeric, to_python
from headrace.lang.condition.shapes import parameterize, shape_to_postgres
from headrace.lang.condition.subject import Json, Sample, Subject, decode_json, jsonb_text, micros_of, moment_of, moment_text
from headrace.lang.condition.text_patterns import RegexDialect, RegexError, regex_text
from headrace.lang.condition.tree import (
    Between,
    Compare,
    Constant,
    Extraction,
    Field,
    In,
    Is,
    Junction,
    KeyOrIndex,
    Node,
    Not,
    Type,
    Value,
    fields_of,
    with_slots,
)
from headrace.lang.nodes import parts_of, walk, with_parts

__all__ = [
    "Between",
    "ClauseValue",
    "Compare",
    "Condition",
    "ConditionComparison",
    "ConditionError",
    "Constant",
    "CorpusError",
    "Diagnostic",
    "Difference",
    "Engine",
    "Evaluate",
    "Extraction",
    "Field",
    "In",
    "Is",
    "Json",
    "Junction",
    "KeyOrIndex",
    "Node",
    "Not",
    "Outcome",
    "RegexDialect",
    "RegexError",
    "Sample",
    "SqlDialect",
    "Subject",
    "TruthSpace",
    "TruthTable",
    "Type",
    "Value",
    "canonical_text",
    "compare_conditions",
    "compile_field",
    "compile_node",
    "decode_json",
    "describe_difference",
    "evaluate_pairs",
    "evaluate_sql",
    "explain",
    "field_to_postgres",
    "fields_of",
    "find_prefix",
    "jsonb_text",
    "load_cases",
    "load_corpus",
    "locate_error",
    "micros_of",
    "moment_of",
    "moment_text",
    "parameterize",
    "parse",
    "parse_scalar",
    "parse_value",
    "parse_with_names",
    "parts_of",
    "postgres_literal",
    "python_engine",
    "read_sample",
    "regex_text",
    "run_cases",
    "sample_rows",
    "shape_to_postgres",
    "text_to_postgres",
    "to_bigint",
    "to_numeric",
    "to_postgres",
    "to_python",
    "value_text",
    "walk",
    "with_parts",
    "with_slots",
]
