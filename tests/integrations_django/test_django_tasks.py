"""Django's tasks as actions: enqueued in the transaction, run by a node, results by the action's id."""

from __future__ import annotations

import json
from typing import Any

import pytest

from headrace.actions import list_dead_letters
from headrace.db import Target, connect
from tests.builders import ROOT
from tests.integrations_django.django_project import DjangoProject

pytestmark = pytest.mark.lane("pg18")


@pytest.fixture
def answer(migrated: Target) -> Any:
    project = DjangoProject(migrated.dsn, settings="tests.integrations_django.django_tasks_settings")
    return json.loads(project.python(ROOT / "tests/integrations_django/django_tasks_run.py"))


def test_tasks_run_on_a_node_and_their_results_are_read_by_id(migrated: Target, answer: Any) -> None:
    assert answer["records"] == 12, "the task of the transaction that was rolled back is not there"
    outcomes = answer["outcomes"]
    notes = [f"note {n}" for n in range(6)]
    assert [outcomes.pop(note)["status"] for note in notes] == ["SUCCESSFUL"] * 6
    assert answer["notes"] == notes, "a task that fails does not make those of its batch run twice"
    assert {outcome["before"] for outcome in outcomes.values()} == {"READY"}
    values = {name: (outcome["status"], outcome["value"]) for name, outcome in outcomes.items()}
    assert values == {
        "sync": ("SUCCESSFUL", 5),
        "async": ("SUCCESSFUL", 9),
        "queue": ("SUCCESSFUL", 13),
        "failing": ("FAILED", None),
        "context": ("SUCCESSFUL", [outcomes["context"]["id"], 1, "RUNNING"]),
        "deferred": ("READY", None),
    }
    assert outcomes["failing"]["errors"] == ["OutOfPaper", "OutOfPaper"] and outcomes["failing"]["attempts"] == 2
    with connect(migrated) as conn:
        errors = sorted(str(letter.error).partition(":")[0] for letter in list_dead_letters(conn))
        assert errors == ["OutOfPaper", "SuspiciousOperation"], "an action's sender cannot choose which function is called"
    assert "12 records of tasks deleted" in DjangoProject(migrated.dsn).manage("prune_headrace_tasks", "--days", "0")
