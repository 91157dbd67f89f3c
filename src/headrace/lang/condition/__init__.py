"""Conditions: the SQL predicate of a rule, over one event.

Owns: the language, from text to tree, and its printers for PostgreSQL, Spark and Python. Promises: user text is never
executed, only our own tree printed again; the three engines give the same answer (true, false or unknown) for the
same event; no condition ever raises at run time. See docs/conditions.md for the language.
"""

from headrace.lang.condition.access import AccessPath, Bound, find_prefix
from headrace.lang.condition.comparison import (
    ConditionComparison,
    Difference,
    TruthSpace,
    compare_conditions,
    describe_difference,
)
from headrace.lang.condition.condition import Condition, parse, parse_scalar, parse_value, parse_with_names
from headrace.lang.condition.corpus import CorpusError, Outcome, load_corpus, read_sample, run_cases
from headrace.lang.condition.engine import (
    Engine,
    SqlDialect,
    TruthTable,
    evaluate_pairs,
    evaluate_sql,
    python_engine,
    sample_rows,
)
from headrace.lang.condition.errors import ConditionError, Diagnostic, locate_error
from headrace.lang.condition.explanation import ClauseValue, explain, value_text
from headrace.lang.condition.limits import NUMERIC_SCALE
from headrace.lang.condition.moments import micros_of, moment_of, moment_text
from headrace.lang.condition.postgres_printer import field_to_postgres, text_to_postgres, to_postgres
from headrace.lang.condition.postgres_printer import literal as postgres_literal
from headrace.lang.condition.python_fields import compile_field, to_bigint, to_numeric
from headrace.lang.condition.python_printer import Evaluate, compile_node, to_python
from headrace.lang.condition.regex import RegexDialect, RegexError, regex_text
from headrace.lang.condition.shapes import Constants, bound_to_spark, parameterize, shape_to_postgres, shape_to_spark
from headrace.lang.condition.spark_fields import field_to_spark
from headrace.lang.condition.spark_fields import literal as spark_literal
from headrace.lang.condition.spark_printer import text_to_spark, to_spark
from headrace.lang.condition.subject import Json, Sample, Subject, decode_json, jsonb_text
from headrace.lang.condition.text_printer import canonical_text
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
    walk,
    with_slots,
)

__all__ = [
    "NUMERIC_SCALE",
    "AccessPath",
    "Between",
    "Bound",
    "ClauseValue",
    "Compare",
    "Condition",
    "ConditionComparison",
    "ConditionError",
    "Constant",
    "Constants",
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
    "bound_to_spark",
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
    "field_to_spark",
    "fields_of",
    "find_prefix",
    "jsonb_text",
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
    "postgres_literal",
    "python_engine",
    "read_sample",
    "regex_text",
    "run_cases",
    "sample_rows",
    "shape_to_postgres",
    "shape_to_spark",
    "spark_literal",
    "text_to_postgres",
    "text_to_spark",
    "to_bigint",
    "to_numeric",
    "to_postgres",
    "to_python",
    "to_spark",
    "value_text",
    "walk",
    "with_slots",
]
