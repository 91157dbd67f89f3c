"""Schemas: what the payloads of an event type look like, and who relies on it.

Owns: the schemas of event types (tables event_schema and event_schema_version), their meaning as value sets, compatibility, the check
of payloads, findings on conditions, generated classes and documents. Promises: a comparison of schemas says yes only with a proof and
no only with an example; the database, the library and the comparison agree on what a schema accepts; without validation, publishing
costs nothing more."""

from headrace.definitions.schemas.codegen import STYLES as STYLES, Style as Style, generate_classes as generate_classes
from headrace.definitions.schemas.comparison import (
    COMPATIBILITIES as COMPATIBILITIES,
    Break as Break,
    Comparison as Comparison,
    Compatibility as Compatibility,
    check_compatibility as check_compatibility,
    compare as compare,
)
from headrace.definitions.schemas.database_check import (
    DatabaseCheck as DatabaseCheck,
    PayloadRule as PayloadRule,
    database_check as database_check,
)
from headrace.definitions.schemas.definitions import (
    DefinitionFinding as DefinitionFinding,
    check_definition as check_definition,
    check_relay_definition as check_relay_definition,
    find_in_conditions as find_in_conditions,
    find_in_relay as find_in_relay,
)
from headrace.definitions.schemas.findings import (
    Finding as Finding,
    RelayFields as RelayFields,
    check_condition as check_condition,
    relay_findings as relay_findings,
)
from headrace.definitions.schemas.inference import infer_schema as infer_schema
from headrace.definitions.schemas.parsing import parse_schema as parse_schema
from headrace.definitions.schemas.registry import (
    EventSchema as EventSchema,
    Proposal as Proposal,
    SchemaChange as SchemaChange,
    SchemaCheck as SchemaCheck,
    SchemaVersion as SchemaVersion,
    alter_schema as alter_schema,
    check_schema as check_schema,
    describe_namespace as describe_namespace,
    drop_schema as drop_schema,
    find_schema as find_schema,
    get_schema as get_schema,
    infer_event_schema as infer_event_schema,
    infer_topic_schemas as infer_topic_schemas,
    list_schema_versions as list_schema_versions,
    list_schemas as list_schemas,
    load_checker as load_checker,
    set_schema as set_schema,
)
from headrace.definitions.schemas.spark_types import spark_type as spark_type
from headrace.definitions.schemas.validation import (
    VALIDATIONS as VALIDATIONS,
    PayloadChecker as PayloadChecker,
    Validation as Validation,
    Violation as Violation,
)
from headrace.definitions.schemas.value_set import (
    JsonValue as JsonValue,
    ValueSet as ValueSet,
    accepts as accepts,
    canonical as canonical,
    read_json as read_json,
)
