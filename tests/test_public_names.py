"""The public surface: rooms meet only through the names that their packages list, and every listed name has a user."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from pathlib import Path

import headrace

SOURCE = Path(headrace.__file__).parent
SUBROOMS = {"definitions", "lang", "log", "observe", "spark", "web"}
"""Rooms whose sub-packages are rooms of their own."""
FOR_USERS: dict[str, set[str]] = {
    "actions": {"Pause", "QueueState"},
    "cli": {"app"},
    "consume": {"SkippedEvent"},
    "correlators": {
        "BatchResult",
        "CorrelatorVersion",
        "EvidenceEvent",
        "KeyEffect",
        "KeyStep",
        "MissingChange",
        "PastOutput",
        "WatchedCorrelator",
        "alter_correlator",
        "drop_correlator",
        "list_correlator_versions",
    },
    "db": {"Grant", "Namespace"},
    "definitions": {"ActionName", "AppliedChange", "EventType", "StoredDefinition"},
    "definitions.schemas": {
        "Break",
        "COMPATIBILITIES",
        "Comparison",
        "DatabaseCheck",
        "DefinitionFinding",
        "EventSchema",
        "JsonValue",
        "PayloadRule",
        "Proposal",
        "STYLES",
        "SchemaChange",
        "SchemaVersion",
        "VALIDATIONS",
        "ValueSet",
        "Violation",
        "accepts",
        "canonical",
        "check_compatibility",
        "compare",
        "database_check",
        "find_schema",
        "infer_schema",
        "load_checker",
        "read_json",
        "relay_findings",
    },
    "demo": {"app"},
    "drivers": {"ConnectionKind", "SESSION_KINDS", "SessionKind", "register_kind", "session_kind"},
    "lang.condition": {"ConditionComparison", "Difference", "Outcome"},
    "lang.ecl": {"Comparison"},
    "log.archive": {
        "ArchivedFile",
        "ClosedPartition",
        "FileVerification",
        "REPLAY_HEADER",
        "ReplayProgress",
        "VacuumResult",
        "open_iceberg_catalog",
        "replay",
    },
    "log.arrow": {"EXPORT_FORMATS", "ExportProgress"},
    "log.outbox": {"Operation"},
    "log.topics": {"SequencedTopic", "sequence"},
    "node": {"Health", "NodeState", "RunningNode"},
    "observe.doctor": {"Check"},
    "observe.history": {"ActionHistory", "CorrelatorOutput", "EventHistory", "Firing", "RuleEvaluation", "RuleWhyNot"},
    "observe.tracing": {"TraceContext", "TracingMode"},
    "prove": {"CHECKS", "CheckResult", "Evidence", "Fault", "Violation"},
    "relays": {
        "Format",
        "Option",
        "Options",
        "RelayRunner",
        "RelayVersion",
        "Target",
        "TargetKind",
        "alter_relay",
        "check_relay",
        "drop_relay",
        "fill_template",
        "find_mistakes",
        "list_relay_versions",
    },
    "rules": {
        "FiredBatch",
        "RuleVersion",
        "WatchedTopic",
        "alter_rule",
        "drop_rule",
        "list_rule_versions",
        "list_rules",
    },
    "schedules": {
        "Missed",
        "Schedule",
        "ScheduleDefinition",
        "alter_schedule",
        "check_cron",
        "drop_schedule",
        "list_schedules",
        "remove_cron_jobs",
        "resume_schedule",
    },
    "spark": {
        "AnyCorrelator",
        "AnyRule",
        "CorrelatorSpec",
        "LogProgress",
        "MicroBatch",
        "RuleSpec",
        "StreamProgress",
        "correlate",
        "correlate_stream",
        "event_schema",
        "map_spark_errors",
        "match",
        "read",
        "register",
        "state_schema",
        "stream_progress",
        "take_micro_batch",
    },
    "spark.backtest": {"Evidence", "KeyCounts", "Result", "Sample", "TokenCounts"},
    "spark.pipeline": {"LedgerRow", "PipelineState"},
    "testing": {"DatabaseServer", "Kit", "RuleFiring", "RunCounts", "SentAction", "TransactionKit", "make_action", "make_event"},
    "web.console": {"HostLogin", "Login", "ProxyLogin"},
    "web.http": {"HeaderLookup", "Hook", "SignatureScheme", "check_window", "require_header", "wrong_signature"},
}
"""Names that no other room uses, but users may: the types that public functions return, and functions for programs."""


@cache
def modules() -> dict[str, ast.Module]:
    """Every module of headrace by its dotted name, parsed."""
    trees = {}
    for path in sorted(SOURCE.rglob("*.py")):
        parts = path.relative_to(SOURCE.parent).with_suffix("").parts
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        trees[name] = ast.parse(path.read_text(encoding="utf-8"))
    return trees


def is_package(name: str) -> bool:
    return (SOURCE.parent / name.replace(".", "/") / "__init__.py").exists()


def room_of(module: str) -> str:
    """The room of a module: `rules` for headrace.rules.engine, `spark.frames` for headrace.spark.frames.evaluation."""
    parts = module.split(".")[1:3]
    nested = len(parts) == 2 and parts[0] in SUBROOMS and is_package(f"headrace.{parts[0]}.{parts[1]}")
    return ".".join(parts if nested else parts[:1])


def imports(name: str) -> Iterator[tuple[str, str, int]]:
    """The imports of a module from headrace: module, imported name, line."""
    for node in ast.walk(modules()[name]):
        if isinstance(node, ast.ImportFrom) and node.level == 0 and (node.module or "").startswith("headrace"):
            for alias in node.names:
                yield str(node.module), alias.name, node.lineno
        elif isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name.startswith("headrace."):
                    yield alias.name, "", node.lineno


def exports(room: str) -> list[str]:
    """The names that a room lists: in `__all__`, or by importing them under their own name (`from … import X as X`)."""
    module = import_module(f"headrace.{room}")
    if hasattr(module, "__all__"):
        return list(module.__all__)
    return [
        name for node in ast.walk(modules()[f"headrace.{room}"]) if isinstance(node, ast.ImportFrom) for name in reexported(node)
    ]


def reexported(node: ast.ImportFrom) -> Iterator[str]:
    for alias in node.names:
        if alias.name == "*":
            values = vars(import_module(str(node.module))).items()
            yield from (name for name, value in values if isinstance(value, type) and value.__module__ == node.module)
        elif alias.asname == alias.name:
            yield alias.name


def rooms() -> list[str]:
    return sorted({room_of(name) for name in modules() if name != "headrace"} - {"", "__main__"})


def test_rooms_import_each_other_only_through_their_packages() -> None:
    offenders = []
    # A seeded bug replaces a function inside another room: that is its purpose.
    for name in sorted(set(modules()) - {"headrace.prove.bugs"}):
        for module, imported, line in imports(name):
            room = room_of(module)
            if is_package(whole := f"{module}.{imported}") and whole == f"headrace.{room_of(whole)}":
                continue  # `from headrace import rules`: a room as a whole
            own = room_of(name)
            # A room may use its sub-rooms, and a sub-room the modules of its parent.
            if not room or room == own or room.startswith(f"{own}.") or own.startswith(f"{room}."):
                continue
            if module != f"headrace.{room}":
                offenders.append(f"{name}:{line} imports from {module}")
            elif imported and imported not in exports(room):
                offenders.append(f"{name}:{line} imports {imported}, which {module} does not list")
    assert offenders == [], "\n" + "\n".join(offenders)


def test_every_listed_name_exists() -> None:
    missing = [
        f"headrace.{room}.{name}"
        for room in rooms()
        for name in exports(room)
        if not hasattr(import_module(f"headrace.{room}"), name)
    ]
    assert missing == []


def test_every_listed_name_is_used_outside_its_room_or_is_for_users() -> None:
    used: dict[str, set[str]] = {}
    for name in modules():
        for module, imported, _ in imports(name):
            if module == f"headrace.{room_of(module)}" and room_of(module) != room_of(name):
                used.setdefault(room_of(module), set()).add(imported)
            if not imported or is_package(f"{module}.{imported}"):
                # `from headrace import rules`: any attribute may be used.
                room = room_of(f"{module}.{imported}" if imported else module)
                names = {node.attr for node in ast.walk(modules()[name]) if isinstance(node, ast.Attribute)}
                used.setdefault(room, set()).update(names)
    unused = [
        f"headrace.{room}.{name}"
        for room in rooms()
        for name in exports(room)
        if name not in used.get(room, set()) | FOR_USERS.get(room, set()) and not is_error(room, name)
    ]
    assert unused == [], "\n" + "\n".join(unused)


def is_error(room: str, name: str) -> bool:
    """Errors are public: users catch them."""
    value = getattr(import_module(f"headrace.{room}"), name)
    return isinstance(value, type) and issubclass(value, Exception)


def test_names_for_users_are_listed() -> None:
    assert [f"{room}.{name}" for room, names in FOR_USERS.items() for name in names if name not in exports(room)] == []


def test_no_module_starts_with_an_underscore() -> None:
    assert [name for name in modules() if name.rsplit(".", 1)[-1].startswith("_") and not name.endswith("__main__")] == []


def test_lazy_name_is_that_of_the_module_which_type_checkers_see() -> None:
    """An earlier module of the package may use the same name for another thing."""
    wrong, checked = [], 0
    for package in (
        name for name in modules() if is_package(name) and "lazy_names" in {target for _, target, _ in imports(name)}
    ):
        for module, name, _ in imports(package):
            if module.startswith(f"{package}."):
                checked += 1
                if getattr(import_module(package), name) is not getattr(import_module(module), name):
                    wrong.append(f"{package}.{name} is not that of {module}")
    assert wrong == [] and checked > 50


def test_lazy_names_equal_the_imports_for_type_checkers() -> None:
    """`headrace` lists its names twice: for type checkers, and in the table of rooms."""
    typed = {(module.removeprefix("headrace."), name) for module, name, _ in imports("headrace")}
    assert {(room, name) for room, names in headrace._ROOMS.items() for name in names} == typed
