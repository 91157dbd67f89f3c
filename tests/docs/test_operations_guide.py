"""The runbook has a section for every finding of doctor and every alert, and the container file uses steps that exist."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import yaml

from headrace.db.sql_files import sql_files
from headrace.observe import doctor
from tests.docs.guide import DOCS

PAGE = (DOCS / "operations.md").read_text(encoding="utf-8")
SECTIONS = set(re.findall(r"^#### (.+)$", PAGE, re.MULTILINE))
DOCTOR = Path(doctor.__file__).parent


def finding_names() -> set[str]:
    """The names of checks that doctor's code and queries yield."""
    names = {*doctor.SERVER_CHECKS, *doctor.STATE_CHECKS} - {"server"}
    for file in DOCTOR.glob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Tuple) and len(node.elts) >= 3 and isinstance(node.elts[0], ast.Constant):
                level = node.elts[1]
                if isinstance(level, ast.Constant) and level.value in ("ok", "info", "warning", "problem"):
                    names.add(str(node.elts[0].value))
    queries = dict(sql_files("queries"))["observe/doctor/queries"]
    names |= set(re.findall(r"select '([a-z ]+)'(?: as check)?, (?:'|case)", queries))
    # A tuple of levels looks the same; three names come from a loop.
    return names - {"ok"} | {"fsync", "full_page_writes", "synchronous_commit", "same topics"}


def test_every_finding_of_doctor_has_its_section() -> None:
    names = finding_names()
    assert {"outbox", "dead letters", "migrated", "clock", "erasures"} <= names
    assert names - SECTIONS == set()


def test_every_alert_has_its_section() -> None:
    import headrace.observe

    file = Path(str(headrace.observe.__file__)).parent / "metrics/files" / "alerts.yml"
    alerts = {rule["alert"] for group in yaml.safe_load(file.read_text())["groups"] for rule in group["rules"]}
    assert len(alerts) >= 8 and alerts - SECTIONS == set()


def test_every_link_inside_the_page_leads_to_a_heading() -> None:
    headings = re.findall(r"^#+ (.+)$", PAGE, re.MULTILINE)
    anchors = {re.sub(r"[^\w\s-]", "", heading).strip().lower().replace(" ", "-") for heading in headings}
    assert set(re.findall(r"\]\(#([^)]+)\)", PAGE)) - anchors == set()


def test_container_file_is_the_one_of_the_repository() -> None:
    [text] = re.findall(r"^```dockerfile\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    assert text == (DOCS.parent / "Dockerfile").read_text()
