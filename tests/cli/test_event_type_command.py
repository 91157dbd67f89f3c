"""`headrace event-type` with schemas, `headrace condition check` and `headrace asyncapi`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from headrace.db import Connection

from .conftest import Cli

pytestmark = pytest.mark.lane("pg18")

ORDER = {
    "type": "object",
    "properties": {"customer": {"type": "string"}, "total": {"type": "integer", "minimum": 0}},
    "required": ["total"],
    "additionalProperties": False,
}


@pytest.fixture
def order(tmp_path: Path) -> str:
    file = tmp_path / "order.json"
    file.write_text(json.dumps(ORDER), encoding="utf-8")
    return str(file)


def test_schema_is_set_checked_shown_and_dropped(cli: Cli, order: str, tmp_path: Path) -> None:
    assert cli("event-type", "set", "order.placed", order, "--compatibility", "full").out == "order.placed has schema version 1\n"
    assert json.loads(cli("event-type", "show", "order.placed").out) == ORDER
    changed = tmp_path / "changed.json"
    changed.write_text(json.dumps({**ORDER, "required": ["total", "customer"]}), encoding="utf-8")
    answer = cli("event-type", "check", "order.placed", str(changed), "--json")
    assert answer.code == 6
    assert answer.json["breaks"] == [
        {
            "direction": "backward",
            "example": '{"total": 0}',
            "reason": "the old schema accepts a payload that the new one rejects",
        }
    ]
    refused = cli("event-type", "set", "order.placed", str(changed))
    assert refused.code == 4 and '{"total": 0}' in refused.err
    assert cli("event-type", "set", "order.placed", "-", "--force", stdin=changed.read_text()).code == 0
    assert [line["version"] for line in cli("event-type", "versions", "order.placed", "--json").json] == [1, 2]
    assert json.loads(cli("event-type", "show", "order.placed", "--version", "1").out) == ORDER
    assert cli("event-type", "show", "order.placed", "--version", "9").code == 3
    assert cli("event-type", "alter", "order.placed", "--validation", "reject").code == 0
    assert cli("event-type", "show", "order.placed", "--json").json["validation"] == "reject"
    assert cli("event-type", "drop", "order.placed", "--schema").code == 0
    assert cli("event-type", "show", "order.placed").code == 3


def test_rule_that_a_schema_breaks_is_named_when_the_schema_is_set(cli: Cli, order: str) -> None:
    cli("topic", "create", "orders")
    rule = ["--topic", "orders", "--event-type", "order.placed", "--action", "NOTE"]
    assert cli("rule", "create", "r", *rule, "--condition", "object ->> 'custmer' = 'x'").code == 0
    answer = cli("event-type", "set", "order.placed", order)
    assert answer.code == 0
    assert "error in rule r (orders), line 1, column 12: the schema has no field 'custmer'" in " ".join(answer.err.split())
    written = cli("rule", "create", "s", *rule, "--condition", "object ->> 'custmer' = 'x'")
    assert written.code == 0 and "did you mean 'customer'?" in " ".join(written.err.split())


def test_condition_is_checked_against_a_file_or_a_type(cli: Cli, order: str) -> None:
    cli("event-type", "set", "order.placed", order)
    for source in (["--schema", order], ["--event-type", "order.placed"]):
        answer = cli("condition", "check", "(object -> 'totl')::int > 1", *source, "--json")
        assert answer.code == 6
        assert answer.json["findings"] == [
            {
                "severity": "error",
                "line": 1,
                "column": 12,
                "message": "the schema has no field 'totl'; it has customer, total",
                "suggestion": "'total'",
                "place": None,
            }
        ]
        assert cli("condition", "check", "(object -> 'total')::int > 1", *source).code == 0


def test_schema_is_inferred_and_becomes_classes_and_a_document(cli: Cli, conn: Connection, tmp_path: Path) -> None:
    cli("topic", "create", "orders")
    cli("publish", "orders", "order.placed", '{"total": 5, "customer": "Ann"}')
    assert cli("event-type", "infer", "orders", "order.placed").code == 3  # nothing is in the log yet
    conn.execute("select headrace.sequence()")
    answer = cli("event-type", "infer", "orders", "order.placed")
    assert json.loads(answer.out)["properties"] == {"customer": {"type": "string"}, "total": {"type": "integer"}}
    assert json.loads(cli("event-type", "infer", "orders").out) == {"order.placed": json.loads(answer.out)}
    assert cli("event-type", "infer", "ordrs").code == 3
    file = tmp_path / "s.json"
    file.write_text(json.dumps(ORDER), encoding="utf-8")
    cli("event-type", "set", "order.placed", str(file))
    [listed] = cli("event-type", "list", "--json").json
    assert (listed["schema"], listed["validation"]) == (1, "off")
    code = cli("event-type", "codegen", "--style", "pydantic").out
    assert (
        "class OrderPlaced(Payload):" in code and code == cli("event-type", "codegen", "order.placed", "--style", "pydantic").out
    )
    document = cli("asyncapi")
    assert json.loads(document.out)["components"]["messages"]["order.placed"]["payload"]["schema"] == ORDER
    assert yaml.safe_load(cli("asyncapi", "--format", "yaml").out) == json.loads(document.out)
