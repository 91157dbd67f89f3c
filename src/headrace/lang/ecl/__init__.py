"""ECL, the event correlation language: text → tree → interpreter, correlation machine, compiled table.

Owns the meaning of patterns. Promises: the three engines give the same outputs at the same times for every pattern and
every sequence of events; a table is immutable, serialisable and stepped by one pure function. Pure: no database, no clock."""

from headrace.lang.ecl._alphabet import Alphabet, Example
from headrace.lang.ecl._compile import compile
from headrace.lang.ecl._errors import (
    CorpusError,
    DrawingError,
    PatternError,
    StateLimitExceeded,
    TableError,
    TimerFlood,
)
from headrace.lang.ecl._event import Engine, Evaluator, Event, Output, Status
from headrace.lang.ecl._interpreter import Interpreter, InterpreterState
from headrace.lang.ecl._limits import LIMITS, Limits
from headrace.lang.ecl._machine import Machine, MachineEngine, MachineState, Transition
from headrace.lang.ecl._machine_build import build_machine
from headrace.lang.ecl._parse import parse, parse_predicate
from headrace.lang.ecl._print import print_expr, print_pattern, print_predicate
from headrace.lang.ecl._table import (
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
)
from headrace.lang.ecl._table_json import from_json, table_hash, to_json
from headrace.lang.ecl._tree import Pattern

__all__ = []
