"""ECL, the event correlation language: text → tree → interpreter, correlation machine, compiled table.

Owns the meaning of patterns. Promises: all engines give the same outputs at the same times for every pattern and every sequence of
events; a table is immutable and serialisable; instances are stepped here for the database and for Spark. No database, no clock."""

from headrace.lang.ecl.alphabet import Decision, Trace, leaves
from headrace.lang.ecl.analysis import (
    Waits,
    dependencies,
    liveness,
    overlapping_guards,
    shortest_to_output,
    triviality,
    typed_conditions,
    types_read,
    types_that_matter,
    vacuity,
    waits_for,
)
from headrace.lang.ecl.comparison import Comparison, Relation, StateMapping, compare, describe_relation, equivalent_states
from headrace.lang.ecl.compiler import compile
from headrace.lang.ecl.corpus import (
    Case,
    Observation,
    difference,
    load_corpus,
    outputs_by_event,
    parse_events,
    read_captured,
    run_case,
    run_events,
)
from headrace.lang.ecl.engine import Event, Output, Status, to_condition_tree
from headrace.lang.ecl.errors import Budget, CorpusError, DrawingError, PatternError, StateLimitExceeded, TableError, TimerFlood
from headrace.lang.ecl.interpreter import Interpreter, InterpreterState
from headrace.lang.ecl.machine import build_machine, draw_machine
from headrace.lang.ecl.near_miss import Change, NearMiss, find_near_misses
from headrace.lang.ecl.parser import parse
from headrace.lang.ecl.register_stepping import AnyBatch, RegisterBatch, make_batch, read_machines
from headrace.lang.ecl.simple_table import ACTION_SHIFT, CHANGES, TO_START, ProductAutomaton, SimpleTable
from headrace.lang.ecl.stepping import TICKS_MAX, Correlation, Instance
from headrace.lang.ecl.symbol_sql import (
    KEY_BYTES_MAX,
    condition_fields,
    facts_to_sql,
    key_to_sql,
    symbols_to_sql,
)
from headrace.lang.ecl.table import (
    Table,
    TableState,
    advance_state,
    draw_table,
    from_json,
    next_deadline,
    run_step,
    start_state,
    status_of,
    table_engine,
    table_graph,
    to_json,
)
from headrace.lang.ecl.tree import Pattern, print_pattern, pushed_tokens

__all__ = [
    "ACTION_SHIFT",
    "CHANGES",
    "KEY_BYTES_MAX",
    "TICKS_MAX",
    "TO_START",
    "AnyBatch",
    "Budget",
    "Case",
    "Change",
    "Comparison",
    "CorpusError",
    "Correlation",
    "Decision",
    "DrawingError",
    "Event",
    "Instance",
    "Interpreter",
    "InterpreterState",
    "NearMiss",
    "Observation",
    "Output",
    "Pattern",
    "PatternError",
    "ProductAutomaton",
    "RegisterBatch",
    "Relation",
    "SimpleTable",
    "StateLimitExceeded",
    "StateMapping",
    "Status",
    "Table",
    "TableError",
    "TableState",
    "TimerFlood",
    "Trace",
    "Waits",
    "advance_state",
    "build_machine",
    "compare",
    "compile",
    "condition_fields",
    "dependencies",
    "describe_relation",
    "difference",
    "draw_machine",
    "draw_table",
    "equivalent_states",
    "facts_to_sql",
    "find_near_misses",
    "from_json",
    "key_to_sql",
    "leaves",
    "liveness",
    "load_corpus",
    "make_batch",
    "next_deadline",
    "outputs_by_event",
    "overlapping_guards",
    "parse",
    "parse_events",
    "print_pattern",
    "pushed_tokens",
    "read_captured",
    "read_machines",
    "run_case",
    "run_events",
    "run_step",
    "shortest_to_output",
    "start_state",
    "status_of",
    "symbols_to_sql",
    "table_engine",
    "table_graph",
    "to_condition_tree",
    "to_json",
    "triviality",
    "typed_conditions",
    "types_read",
    "types_that_matter",
    "vacuity",
    "waits_for",
]
