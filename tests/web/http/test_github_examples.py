"""Real payloads: GitHub's webhook examples come in through a hook; schemas are inferred from the log, and rules are checked by them."""

from __future__ import annotations

import hmac
import json
from hashlib import sha256
from uuid import uuid4

import pytest

from headrace.definitions.schemas import canonical, check_condition, infer_event_schema, parse_schema, set_schema
from headrace.lang.condition import parse
from headrace.web.http import create_hook
from tests.web.http.conftest import Client, RunningServer
from tests.webhook_examples import github_examples

SECRET = "it's a secret to everybody"


@pytest.mark.parametrize("examples_max", [2, pytest.param(1000, marks=pytest.mark.slow)])
def test_githubs_examples_are_taken_and_give_schemas(
    http_server: RunningServer, topic: str, monkeypatch: pytest.MonkeyPatch, examples_max: int
) -> None:
    examples = github_examples()
    monkeypatch.setenv("HEADRACE_SECRET_DEFAULT__GITHUB", SECRET)
    create_hook(http_server.conn, f"github-{examples_max}", topic, "github", ["env:GITHUB"])
    client, sent = Client(http_server.port), []

    def send(event: str, text: str, secret: str = SECRET) -> int:
        body = text.encode()
        signature = f"sha256={hmac.new(secret.encode(), body, sha256).hexdigest()}"
        answer = client.post(
            f"/hooks/github-{examples_max}",
            body,
            content_type="application/json",
            x_github_event=event,
            x_github_delivery=str(uuid4()),
            x_hub_signature_256=signature,
        )
        return answer.status

    for event, texts in examples.items():
        for text in texts[:examples_max]:
            assert send(event, text) == 201, event
            sent.append((f"github.{event}", json.loads(text)))
    assert send("issues", examples["issues"][0], "another secret") == 401
    logged = http_server.log(topic)
    assert len(sent) > 80 and [(event.type, event.payload) for event in logged] == sent
    with_repository = [event for event in logged if "repository" in event.payload]
    assert with_repository and all(event.key == event.payload["repository"]["full_name"] for event in with_repository)

    proposal = infer_event_schema(http_server.conn, topic, "github.issues")
    values = parse_schema(canonical(proposal.schema))
    good = "object ->> 'action' = 'opened' and (object -> 'issue' -> 'number')::int > 5"
    assert check_condition(parse(good), good, values) == ()
    bad = "object -> 'isue' ->> 'title' = 'x'"
    (finding,) = check_condition(parse(bad), bad, values)
    assert finding.suggestion == "'issue'"

    # From now on the database rejects what breaks the schema, also through the hook.
    set_schema(http_server.conn, "github.issues", canonical(proposal.schema), validation="reject")
    assert send("issues", examples["issues"][0]) == 201
    broken = json.loads(examples["issues"][0])
    broken["issue"]["number"] = "seven"
    assert send("issues", json.dumps(broken)) == 422
