"""Conditions: the SQL predicate of a rule, over one event.

Owns: the language, from text to tree, and its printers for PostgreSQL and Python. Promises: user text is never
executed, only our own tree printed again; all engines give the same answer (true, false or unknown) for the
same event; no condition ever raises at run time. See docs/conditions.md for the language.
"""

from headrace.lang.condition.access import find_prefix as find_prefix
from headrace.lang.condition.comparison import (
    ClauseValue as ClauseValue,
    ConditionComparison as ConditionComparison,
    Difference as Difference,
    TruthSpace as TruthSpace,
    compare_conditions as compare_conditions,
    describe_difference as describe_difference,
    explain as explain,
    value_text as value_text,
)
from headrace.lang.condition.condition import (
    Condition as Condition,
    canonical_text as canonical_text,
    parse as parse,
    parse_scalar as parse_scalar,
    parse_value as parse_value,
    parse_with_names as parse_with_names,
)
from headrace.lang.condition.corpus import (
    CorpusError as CorpusError,
    Engine as Engine,
    Outcome as Outcome,
    SqlDialect as SqlDialect,
    TruthTable as TruthTable,
    evaluate_pairs as evaluate_pairs,
    evaluate_sql as evaluate_sql,
    load_cases as load_cases,
    load_corpus as load_corpus,
    python_engine as python_engine,
    read_sample as read_sample,
    run_cases as run_cases,
    sample_rows as sample_rows,
)
from headrace.lang.condition.errors import (
    ConditionError as ConditionError,
    Diagnostic as Diagnostic,
    locate_error as locate_error,
)
from headrace.lang.condition.postgres_printer import (
    field_to_postgres as field_to_postgres,
    postgres_literal as postgres_literal,
    text_to_postgres as text_to_postgres,
    to_postgres as to_postgres,
)
from headrace.lang.condition.python_printer import (
    Evaluate as Evaluate,
    compile_field as compile_field,
    compile_node as compile_node,
    to_bigint as to_bigint,
    to_numeric as to_numeric,
    to_python as to_python,
)
from headrace.lang.condition.shapes import parameterize as parameterize, shape_to_postgres as shape_to_postgres
from headrace.lang.condition.subject import (
    Json as Json,
    Sample as Sample,
    Subject as Subject,
    decode_json as decode_json,
    jsonb_text as jsonb_text,
    micros_of as micros_of,
    moment_of as moment_of,
    moment_text as moment_text,
)
from headrace.lang.condition.text_patterns import (
    RegexDialect as RegexDialect,
    RegexError as RegexError,
    regex_example as regex_example,
    regex_text as regex_text,
)
from headrace.lang.condition.tree import (
    Between as Between,
    Compare as Compare,
    Constant as Constant,
    Extraction as Extraction,
    Field as Field,
    In as In,
    Is as Is,
    Junction as Junction,
    KeyOrIndex as KeyOrIndex,
    Node as Node,
    Not as Not,
    Type as Type,
    Value as Value,
    fields_of as fields_of,
    with_slots as with_slots,
)
from headrace.lang.nodes import parts_of as parts_of, walk as walk, with_parts as with_parts
