"""ECL, the event correlation language: text → tree → interpreter, correlation machine, compiled table.

Owns the meaning of patterns. Promises: all engines give the same outputs at the same times for every pattern and every sequence of
events; a table is immutable and serialisable; instances are stepped here for the database and for Spark. No database, no clock."""

from headrace.lang.ecl.alphabet import Decision as Decision, Trace as Trace, leaves as leaves
from headrace.lang.ecl.analysis import (
    Waits as Waits,
    dependencies as dependencies,
    liveness as liveness,
    overlapping_guards as overlapping_guards,
    shortest_to_output as shortest_to_output,
    triviality as triviality,
    typed_conditions as typed_conditions,
    types_read as types_read,
    types_that_matter as types_that_matter,
    vacuity as vacuity,
    waits_for as waits_for,
)
from headrace.lang.ecl.comparison import (
    Comparison as Comparison,
    Relation as Relation,
    StateMapping as StateMapping,
    compare as compare,
    describe_relation as describe_relation,
    equivalent_states as equivalent_states,
)
from headrace.lang.ecl.compiler import compile as compile
from headrace.lang.ecl.corpus import (
    Case as Case,
    Observation as Observation,
    difference as difference,
    load_corpus as load_corpus,
    outputs_by_event as outputs_by_event,
    parse_events as parse_events,
    read_captured as read_captured,
    run_case as run_case,
    run_events as run_events,
)
from headrace.lang.ecl.engine import Event as Event, Output as Output, Status as Status, to_condition_tree as to_condition_tree
from headrace.lang.ecl.errors import (
    Budget as Budget,
    CorpusError as CorpusError,
    DrawingError as DrawingError,
    PatternError as PatternError,
    StateLimitExceeded as StateLimitExceeded,
    TableError as TableError,
    TimerFlood as TimerFlood,
)
from headrace.lang.ecl.interpreter import Interpreter as Interpreter, InterpreterState as InterpreterState
from headrace.lang.ecl.machine import build_machine as build_machine, draw_machine as draw_machine
from headrace.lang.ecl.near_miss import Change as Change, NearMiss as NearMiss, find_near_misses as find_near_misses
from headrace.lang.ecl.parser import parse as parse
from headrace.lang.ecl.register_stepping import (
    AnyBatch as AnyBatch,
    RegisterBatch as RegisterBatch,
    make_batch as make_batch,
    read_machines as read_machines,
)
from headrace.lang.ecl.simple_table import (
    ACTION_SHIFT as ACTION_SHIFT,
    CHANGES as CHANGES,
    TO_START as TO_START,
    ProductAutomaton as ProductAutomaton,
    SimpleTable as SimpleTable,
)
from headrace.lang.ecl.stepping import TICKS_MAX as TICKS_MAX, Correlation as Correlation, Instance as Instance
from headrace.lang.ecl.symbol_sql import (
    KEY_BYTES_MAX as KEY_BYTES_MAX,
    condition_fields as condition_fields,
    facts_to_sql as facts_to_sql,
    key_to_sql as key_to_sql,
    symbols_to_sql as symbols_to_sql,
)
from headrace.lang.ecl.table import (
    Table as Table,
    TableState as TableState,
    advance_state as advance_state,
    draw_table as draw_table,
    from_json as from_json,
    next_deadline as next_deadline,
    run_step as run_step,
    start_state as start_state,
    status_of as status_of,
    table_engine as table_engine,
    table_graph as table_graph,
    to_json as to_json,
)
from headrace.lang.ecl.tree import Pattern as Pattern, print_pattern as print_pattern, pushed_tokens as pushed_tokens
