"""Conditions: the SQL predicate of a rule, over one event.

Owns: the language, from text to tree, and its printers for PostgreSQL, Spark and Python. Promises: user text is never
executed, only our own tree printed again; the three engines give the same answer (true, false or unknown) for the
same event; no condition ever raises at run time. See docs/conditions.md for the language.
"""

from headrace.lang.condition.condition import Condition, Equality, parse
from headrace.lang.condition.corpus import Case, CorpusError, EvaluateMany, Outcome, load_corpus, run_cases, sample_of
from headrace.lang.condition.engine import Answers, Dialect, Engine, answer_queries, joined, pairwise, python_engine, sample_rows
from headrace.lang.condition.errors import ConditionError
from headrace.lang.condition.explanation import ClauseValue, explain
from headrace.lang.condition.limits import NUMERIC_SCALE
from headrace.lang.condition.moments import micros_of, moment_of
from headrace.lang.condition.postgres_printer import equality_to_postgres, field_to_postgres, to_postgres
from headrace.lang.condition.python_printer import Evaluate, to_python
from headrace.lang.condition.scalar import Scalar, parse_scalar, scalar_to_postgres, scalar_to_python
from headrace.lang.condition.shapes import Constants, Shaped, ShapeSql, shape_to_postgres, shape_to_spark, shaped, spark_constants
from headrace.lang.condition.spark_fields import literal as spark_literal
from headrace.lang.condition.spark_printer import equality_to_spark, field_to_spark, node_to_spark, to_spark
from headrace.lang.condition.subject import Json, Sample, Subject, decode_json, jsonb_text
from headrace.lang.condition.tree import Compare, Either, Field, Node, Step, Take, Type, fields_of

__all__ = [
    "NUMERIC_SCALE",
    "Answers",
    "Case",
    "ClauseValue",
    "Compare",
    "Condition",
    "ConditionError",
    "Constants",
    "CorpusError",
    "Dialect",
    "Either",
    "Engine",
    "Equality",
    "Evaluate",
    "EvaluateMany",
    "Field",
    "Json",
    "Node",
    "Outcome",
    "Sample",
    "Scalar",
    "ShapeSql",
    "Shaped",
    "Step",
    "Subject",
    "Take",
    "Type",
    "answer_queries",
    "decode_json",
    "equality_to_postgres",
    "equality_to_spark",
    "explain",
    "field_to_postgres",
    "field_to_spark",
    "fields_of",
    "joined",
    "jsonb_text",
    "load_corpus",
    "micros_of",
    "moment_of",
    "node_to_spark",
    "pairwise",
    "parse",
    "parse_scalar",
    "python_engine",
    "run_cases",
    "sample_of",
    "sample_rows",
    "scalar_to_postgres",
    "scalar_to_python",
    "shape_to_postgres",
    "shape_to_spark",
    "shaped",
    "spark_constants",
    "spark_literal",
    "to_postgres",
    "to_python",
    "to_spark",
]
