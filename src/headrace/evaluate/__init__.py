"""Evaluate: rules and patterns over Arrow columns, in one process or in a task of Spark.

Owns: the classification of events by whole columns, and the stepping of their patterns in the fastest way that a table allows, compiled
by numba where it is installed. Promises: the firings, outputs and evidence of the database's engines. Importing this room imports
neither pyarrow nor numba."""

from typing import TYPE_CHECKING

from headrace.evaluate.specs import CorrelatorSpec as CorrelatorSpec, RuleSpec as RuleSpec
from headrace.lazy_names import lazy_names

if TYPE_CHECKING:
    from headrace.evaluate.classification import Classifier as Classifier, Group as Group, make_groups as make_groups
    from headrace.evaluate.conditions import truth_table as truth_table
    from headrace.evaluate.rows import (
        OUTPUT_SCHEMA as OUTPUT_SCHEMA,
        STATE_SCHEMA as STATE_SCHEMA,
        Rows as Rows,
        Stepped as Stepped,
        sort_rows as sort_rows,
    )
    from headrace.evaluate.stepping import (
        NUMBERED_SCHEMA as NUMBERED_SCHEMA,
        WarmStates as WarmStates,
        make_run as make_run,
        step as step,
    )
    from headrace.evaluate.stream_chunks import (
        CHUNK as CHUNK,
        CHUNK_SCHEMA as CHUNK_SCHEMA,
        HEAD as HEAD,
        OUTPUT as OUTPUT,
        run_chunks as run_chunks,
        run_heads as run_heads,
    )
else:
    # These need pyarrow.
    __getattr__ = lazy_names(__name__, "classification", "rows", "stepping", "stream_chunks", "conditions")
