"""ECL, the event correlation language: text → tree → interpreter, correlation machine, compiled table.

Owns the meaning of patterns. Promises: the three engines give the same outputs at the same times for every pattern and
every sequence of events; a table is immutable, serialisable and stepped by one pure function. No database, no clock."""

from headrace.lang.ecl.alphabet import Alphabet, Decision, Example
from headrace.lang.ecl.analysis import (
    Liveness,
    Triviality,
    Vacuity,
    Waits,
    components,
    liveness,
    shortest_to_output,
    triviality,
    vacuity,
    waits_for,
)
from headrace.lang.ecl.carrying import Carrying, equivalent_states
from headrace.lang.ecl.comparison import Comparison, Relation, compare
from headrace.lang.ecl.compiler import compile
from headrace.lang.ecl.conditions import evaluate_condition
from headrace.lang.ecl.corpus import ENGINES, Case, EngineName, difference, load_corpus, make_engine, run_case
from headrace.lang.ecl.dependencies import Dependency, Overlap, dependencies, overlapping_guards
from headrace.lang.ecl.drawing import draw_machine, draw_table
from headrace.lang.ecl.errors import CorpusError, DrawingError, PatternError, StateLimitExceeded, TableError, TimerFlood
from headrace.lang.ecl.events import Engine, Evaluator, Event, Output, Status
from headrace.lang.ecl.interpreter import Interpreter, InterpreterState
from headrace.lang.ecl.limits import LIMITS, Limits
from headrace.lang.ecl.machine import Machine, MachineEngine, MachineState, Transition
from headrace.lang.ecl.machine_builder import build_machine
from headrace.lang.ecl.network import Flat, Guard, Kind, Node, live_timers, move
from headrace.lang.ecl.parser import parse, parse_predicate
from headrace.lang.ecl.printer import print_expr, print_pattern, print_predicate
from headrace.lang.ecl.running import RunStep, parse_events, run_events
from headrace.lang.ecl.table import (
    Table,
    TableEngine,
    TableState,
    advance_state,
    classify,
    is_start,
    moved,
    next_deadline,
    run_step,
    start_state,
    status_of,
    take_event,
)
from headrace.lang.ecl.table_json import from_json, table_hash, to_json
from headrace.lang.ecl.trace import Trace, TraceStep
from headrace.lang.ecl.tree import Pattern

__all__ = [
    "ENGINES",
    "LIMITS",
    "Alphabet",
    "Carrying",
    "Case",
    "Comparison",
    "CorpusError",
    "Decision",
    "Dependency",
    "DrawingError",
    "Engine",
    "EngineName",
    "Evaluator",
    "Event",
    "Example",
    "Flat",
    "Guard",
    "Interpreter",
    "InterpreterState",
    "Kind",
    "Limits",
    "Liveness",
    "Machine",
    "MachineEngine",
    "MachineState",
    "Node",
    "Output",
    "Overlap",
    "Pattern",
    "PatternError",
    "Relation",
    "RunStep",
    "StateLimitExceeded",
    "Status",
    "Table",
    "TableEngine",
    "TableError",
    "TableState",
    "TimerFlood",
    "Trace",
    "TraceStep",
    "Transition",
    "Triviality",
    "Vacuity",
    "Waits",
    "advance_state",
    "build_machine",
    "classify",
    "compare",
    "compile",
    "components",
    "dependencies",
    "difference",
    "draw_machine",
    "draw_table",
    "equivalent_states",
    "evaluate_condition",
    "from_json",
    "is_start",
    "live_timers",
    "liveness",
    "load_corpus",
    "make_engine",
    "move",
    "moved",
    "next_deadline",
    "overlapping_guards",
    "parse",
    "parse_events",
    "parse_predicate",
    "print_expr",
    "print_pattern",
    "print_predicate",
    "run_case",
    "run_events",
    "run_step",
    "shortest_to_output",
    "start_state",
    "status_of",
    "table_hash",
    "take_event",
    "to_json",
    "triviality",
    "vacuity",
    "waits_for",
]
