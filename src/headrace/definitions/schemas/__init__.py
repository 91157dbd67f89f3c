"""Schemas: what the payloads of an event type look like, and who relies on it.

Owns: the schemas of event types (tables event_schema and event_schema_version), their meaning as value sets, compatibility, the check
of payloads, findings on conditions, generated classes and documents. Promises: a comparison of schemas says yes only with a proof and
no only with an example; the database, the library and the comparison agree on what a schema accepts; without validation, publishing
costs nothing more."""

from headrace.definitions.schemas.codegen import STYLES, Style, generate_classes
from headrace.definitions.schemas.comparison import (
    COMPATIBILITIES,
    Break,
    Comparison,
    Compatibility,
    check_compatibility,
    compare,
)
from headrace.definitions.schemas.database_check import DatabaseCheck, PayloadRule, database_check
from headrace.definitions.schemas.definitions import (
    DefinitionFinding,
    check_definition,
    check_relay_definition,
    find_in_conditions,
    find_in_relay,
)
from headrace.definitions.schemas.findings import Finding, RelayFields, check_condition, relay_findings
from headrace.definitions.schemas.inference import infer_schema
from headrace.definitions.schemas.parsing import parse_schema
from headrace.definitions.schemas.registry import (
    EventSchema,
    Proposal,
    SchemaChange,
    SchemaCheck,
    SchemaVersion,
    alter_schema,
    check_schema,
    describe_namespace,
    drop_schema,
    find_schema,
    get_schema,
    infer_event_schema,
    infer_topic_schemas,
    list_schema_versions,
    list_schemas,
    load_checker,
    set_schema,
)
from headrace.definitions.schemas.spark_types import spark_type
from headrace.definitions.schemas.validation import VALIDATIONS, PayloadChecker, Validation, Violation
from headrace.definitions.schemas.value_set import JsonValue, ValueSet, accepts, canonical, read_json

__all__ = [
    "COMPATIBILITIES",
    "STYLES",
    "VALIDATIONS",
    "Break",
    "Comparison",
    "Compatibility",
    "DatabaseCheck",
    "DefinitionFinding",
    "EventSchema",
    "Finding",
    "JsonValue",
    "PayloadChecker",
    "PayloadRule",
    "Proposal",
    "RelayFields",
    "SchemaChange",
    "SchemaCheck",
    "SchemaVersion",
    "Style",
    "Validation",
    "ValueSet",
    "Violation",
    "accepts",
    "alter_schema",
    "canonical",
    "check_compatibility",
    "check_condition",
    "check_definition",
    "check_relay_definition",
    "check_schema",
    "compare",
    "database_check",
    "describe_namespace",
    "drop_schema",
    "find_in_conditions",
    "find_in_relay",
    "find_schema",
    "generate_classes",
    "get_schema",
    "infer_event_schema",
    "infer_schema",
    "infer_topic_schemas",
    "list_schema_versions",
    "list_schemas",
    "load_checker",
    "parse_schema",
    "read_json",
    "relay_findings",
    "set_schema",
    "spark_type",
]
