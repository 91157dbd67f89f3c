"""POST /topics/{topic}/events: forms, limits, tokens, and every status."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from uuid import UUID, uuid4

import msgspec
import pytest

from headrace.core import Event, to_cloudevent
from headrace.db import Server, create_namespace
from headrace.log.topics import create_topic
from headrace.web.http import IngestSettings, list_access_tokens, revoke_access_token
from headrace.web.http.event_requests import EventRequest
from tests.builders import wait_until
from tests.web.http.conftest import LOOPBACK, Client, RunningServer, run_server

STRUCTURED = "application/cloudevents+json"
BATCH = "application/cloudevents-batch+json"


def cloudevent(**attributes: object) -> dict[str, object]:
    return {"specversion": "1.0", "id": str(uuid4()), "source": "/shop", "type": "order.placed", "data": {"n": 1}, **attributes}


def test_plain_event_has_type_key_and_headers_of_url_or_headers(http_server: RunningServer, topic: str) -> None:
    client = http_server.client()
    first = client.post(f"/topics/{topic}/events?type=order.placed&key=%C3%A4", {"n": 1.10})
    second = client.post(f"/topics/{topic}/events", [2], event_type="order.paid", event_key="k", event_header_Tenant="t1")
    assert (first.status, second.status) == (201, 201), (first.body, second.body)
    one, two = http_server.log(topic)
    assert ([str(one.id)], [str(two.id)]) == (first.json["ids"], second.json["ids"])
    assert (one.type, one.key, one.payload, one.headers) == ("order.placed", "ä", {"n": 1.1}, {})
    assert (two.type, two.key, two.payload, two.headers) == ("order.paid", "k", [2], {"tenant": "t1"})
    assert one.producer == two.producer and one.producer.startswith("token-")


def test_structured_cloudevent_comes_out_as_it_came_in(http_server: RunningServer, topic: str) -> None:
    event = cloudevent(partitionkey="k", time="2026-01-02T03:04:05.123456Z", traceparent="00-1", region="eu", subject="s")
    answer = http_server.client().post(f"/topics/{topic}/events", event, content_type=f"{STRUCTURED}; charset=UTF-8")
    assert answer.json == {"ids": [event["id"]]}
    (logged,) = http_server.log(topic)
    out = json.loads(to_cloudevent(logged))
    assert datetime.fromisoformat(out.pop("time")) == datetime.fromisoformat(str(event.pop("time")))
    assert out == event


@pytest.mark.parametrize(
    ("content_type", "body", "payload", "kind"),
    [
        ("application/json", b'{"n": 12345678901234567890123}', {"n": 12345678901234567890123}, None),
        ("text/plain", "grün".encode(), "grün", "text/plain"),
        ("image/png", b"\x00\xff", "AP8=", "image/png"),
    ],
)
def test_binary_cloudevent_is_the_same_event(
    http_server: RunningServer, topic: str, content_type: str, body: bytes, payload: object, kind: str | None
) -> None:
    names = {"ce_specversion": "1.0", "ce_id": "a-17", "ce_source": "/shop", "ce_type": "order.placed", "ce_subject": "gr%C3%BCn"}
    client = http_server.client()
    answers = [client.post(f"/topics/{topic}/events", body, content_type=content_type, **names) for _ in range(2)]
    assert [answer.status for answer in answers] == [201, 201]
    assert answers[0].json == answers[1].json
    (logged,) = http_server.log(topic)
    assert logged.payload == payload and logged.headers["ce_id"] == "a-17" and logged.headers["ce_subject"] == "grün"
    assert logged.headers.get("ce_datacontenttype") == kind


def test_trace_context_of_the_request_becomes_that_of_the_event(http_server: RunningServer, topic: str) -> None:
    client = http_server.client()
    client.post(f"/topics/{topic}/events?type=a", {}, traceparent="00-aa-bb-01", tracestate="x=1")
    client.post(f"/topics/{topic}/events", cloudevent(traceparent="00-own"), content_type=STRUCTURED, traceparent="00-aa-bb-01")
    assert [event.headers["traceparent"] for event in http_server.log(topic)] == ["00-aa-bb-01", "00-own"]


def test_batch_is_published_as_a_whole_or_not_at_all(http_server: RunningServer, topic: str) -> None:
    client = http_server.client()
    good = [cloudevent(data={"n": n}, partitionkey=f"k{n}") for n in range(20)]
    answer = client.post(f"/topics/{topic}/events", good, content_type=BATCH)
    assert answer.json == {"ids": [event["id"] for event in good]}
    bad = client.post(f"/topics/{topic}/events", [cloudevent(), cloudevent(type="1 type")], content_type=BATCH)
    assert (bad.status, bad.error) == (422, "InvalidEventType")
    assert [event.payload for event in http_server.log(topic)] == [{"n": n} for n in range(20)]


# Each request, its status and its error.
REJECTED = {
    "not JSON": (("?type=a", b"{", {}), 400, "InvalidPayload"),
    "empty": (("?type=a", b"", {}), 400, "InvalidPayload"),
    "not a CloudEvent": (("", b'{"type": "a"}', {"content_type": STRUCTURED}), 400, "InvalidCloudEvent"),
    "batch that is an object": (("", b"{}", {"content_type": BATCH}), 400, "InvalidPayload"),
    "empty batch": (("", b"[]", {"content_type": BATCH}), 422, "Invalid"),
    "batch of texts": (("", b'["a"]', {"content_type": BATCH}), 400, "InvalidCloudEvent"),
    "large batch": (("", json.dumps([cloudevent()] * 1001).encode(), {"content_type": BATCH}), 413, "BatchTooLarge"),
    "no type": (("", b"{}", {}), 422, "InvalidEventType"),
    "bad type": (("?type=1%20x", b"{}", {}), 422, "InvalidEventType"),
    "long key": (("?type=a&key=" + "k" * 1025, b"{}", {}), 422, "InvalidKey"),
    "NUL in a key": (("?type=a&key=%00", b"{}", {}), 422, "InvalidText"),
    "NUL in the payload": (("?type=a", b'{"a": "\\u0000"}', {}), 422, "InvalidText"),
    "NUL in a batch": (("", json.dumps([cloudevent(data="\0")]).encode(), {"content_type": BATCH}), 422, "InvalidText"),
    "half a surrogate": (("?type=a", b'{"a": "\\ud800"}', {}), 400, "InvalidPayload"),
    "not UTF-8": (("?type=a", b'{"a": "\xff"}', {}), 422, "InvalidText"),
    "number beyond a double": (("?type=a", b"[1e400]", {}), 422, "InvalidNumber"),
    "deep": (("?type=a", b"[" * 200 + b"]" * 200, {}), 422, "PayloadTooDeep"),
    "very deep": (("?type=a", b"[" * 500_000, {}), 422, "PayloadTooDeep"),
    "very deep data": (("", b'{"data":' + b"[" * 500_000, {"content_type": STRUCTURED}), 422, "PayloadTooDeep"),
    "very deep batch": (("", b"[" * 500_000, {"content_type": BATCH}), 422, "PayloadTooDeep"),
    "payload of 1.5 MB": (("?type=a", b'"' + b"x" * 1_500_000 + b'"', {}), 413, "PayloadTooLarge"),
    "id that is no UUID": (("?type=a&id=7", b"{}", {}), 422, "Invalid"),
    "large headers": (("?type=a", b"{}", {"event_header_x": "x" * 17_000}), 422, "InvalidHeaders"),
    "unknown parameter": (("?type=a&kye=k", b"{}", {}), 400, "InvalidParameter"),
    "parameter twice": (("?type=a&type=b", b"{}", {}), 400, "InvalidParameter"),
    "no content type": (("?type=a", b"{}", {"content_type": ""}), 415, "UnsupportedMediaType"),
    "form": (("?type=a", b"a=1", {"content_type": "application/x-www-form-urlencoded"}), 415, "UnsupportedMediaType"),
    "latin-1": (("?type=a", b"{}", {"content_type": "application/json; charset=latin-1"}), 415, "UnsupportedMediaType"),
    "CloudEvent with bytes that are no text": (
        ("", b"{}", {"ce_specversion": "1.0", "ce_id": "1", "ce_source": "/s", "ce_type": "a", "ce_subject": "%ff"}),
        400,
        "InvalidText",
    ),
    "CloudEvent with a bad name": (
        ("", b"{}", {"ce_specversion": "1.0", "ce_id": "1", "ce_source": "/s", "ce_type": "a", "ce_a_b": "x"}),
        400,
        "InvalidCloudEvent",
    ),
    "empty idempotency key": (("?type=a", b"{}", {"idempotency_key": '""'}), 400, "InvalidIdempotencyKey"),
    "long idempotency key": (("?type=a", b"{}", {"idempotency_key": "k" * 256}), 400, "InvalidIdempotencyKey"),
}


@pytest.mark.parametrize("case", REJECTED)
def test_rejected_request_says_why_and_publishes_nothing(http_server: RunningServer, case: str) -> None:
    (query, body, headers), status, error = REJECTED[case]
    headers = {"content_type": "application/json", **headers}
    answer = http_server.client().post(f"/topics/orders/events{query}", body, **headers)
    assert (answer.status, answer.error) == (status, error), answer.body
    assert http_server.log("orders") == []


def test_body_over_the_limit_is_413_and_the_connection_ends(http_server: RunningServer) -> None:
    answer = http_server.client().post("/topics/orders/events?type=a", b" " * 4_200_000, content_type="application/json")
    assert (answer.status, answer.error, answer.headers["connection"]) == (413, "PayloadTooLarge", "close")


def test_unknown_topic_path_and_method(http_server: RunningServer) -> None:
    client = http_server.client()
    for path in (
        "/topics/a%00b/events",
        "/topics/orders/events?key=%00",
        "/topics/orders/events?types=%00",
        "/topics/%FF/events",
    ):
        assert client.get(path).status in (404, 422), path
    assert client.post("/topics/a%00b/events?type=a", {}).status == 404
    assert client.post("/hooks/%00", {}).status in (404, 422)
    assert client.post("/topics/none/events?type=a", {}).error == "UnknownTopic"
    assert client.post("/topics/none/events?type=a", {}).status == 404
    assert (client.get("/nothing").status, client.get("/nothing").error) == (404, "UnknownAddress")
    answer = client.send("PUT", "/topics/orders/events", b"")
    assert answer.status == 405 and answer.error
    assert client.get("/healthz").json == {"status": "ok"}


@pytest.mark.parametrize("header", [None, "Basic eDp5", "Bearer", "Bearer hrt_unknown", "Bearer " + "x" * 500, "Bearer \xe4"])
def test_request_without_a_known_token_is_401(http_server: RunningServer, header: str | None) -> None:
    answer = Client(http_server.port).post("/topics/orders/events?type=a", {}, **({"authorization": header} if header else {}))
    assert (answer.status, answer.error) == (401, "InvalidAccessToken")
    assert answer.headers["www-authenticate"].startswith("Bearer")


def test_token_gives_its_rights_topics_and_types_only(http_server: RunningServer, topic: str) -> None:
    reader = http_server.client("read")
    assert reader.post(f"/topics/{topic}/events?type=a", {}).status == 403
    writer = http_server.client("publish", topics=[topic, "logs.*"], event_types=["order.*", "paid"])
    assert writer.get(f"/topics/{topic}/events").status == 403
    for type, status in {"order.placed": 201, "paid": 201, "paid.x": 403, "orders": 403}.items():
        assert writer.post(f"/topics/{topic}/events?type={type}", {}).status == status, type
    assert writer.post("/topics/orders/events?type=paid", {}).status == 403
    assert writer.post("/topics/secret/events?type=paid", {}).status == 403, "as for a topic that exists"
    assert writer.post("/topics/logs.web/events?type=paid", {}).status == 404
    batch = [cloudevent(), cloudevent(type="other")]
    assert writer.post(f"/topics/{topic}/events", batch, content_type=BATCH).status == 403
    assert len(http_server.log(topic)) == 2


def test_request_acts_in_the_namespace_of_its_token(http_server: RunningServer) -> None:
    create_namespace(http_server.conn, "shop")
    create_topic(http_server.conn, "orders", namespace="shop")
    client = http_server.client(name="own", namespace="shop")
    assert client.post("/topics/orders/events?type=a&key=shop", {}).status == 201
    assert [event.key for event in http_server.log("orders", "shop")] == ["shop"]
    assert all(event.key != "shop" for event in http_server.log("orders"))


def test_expired_and_revoked_tokens_are_401(http_server: RunningServer) -> None:
    late = http_server.client(name="late", expires_at=datetime.now(UTC) - timedelta(seconds=1))
    answer = late.post("/topics/orders/events?type=a", {})
    assert answer.status == 401 and "expired" in answer.json["detail"]
    client = http_server.client(name="leaked")
    assert client.get("/topics/orders/events").status == 200
    revoke_access_token(http_server.conn, "leaked")
    wait_until(lambda: client.get("/topics/orders/events").status == 401, "the end of the token")


def test_only_the_digest_of_a_token_is_stored(http_server: RunningServer) -> None:
    client = http_server.client(name="kept")
    assert client.token is not None and client.token not in repr(client)
    rows = http_server.conn.execute("select t::text from headrace_internal.access_token t").fetchall()
    assert all(client.token not in str(row) and client.token.encode().hex() not in str(row) for row in rows)


def test_token_made_by_sql_works(http_server: RunningServer) -> None:
    (token,) = http_server.conn.execute("select headrace.create_access_token('sql', '{read}')").fetchone()  # type: ignore[misc]
    assert Client(http_server.port, token).get("/topics/orders/events").status == 200
    assert len(token) == 47


def test_rate_limit_of_a_token_is_429_with_retry_after(http_server: RunningServer, topic: str) -> None:
    client = http_server.client(rate_per_s=2)
    statuses = [client.post(f"/topics/{topic}/events?type=a", {}).status for _ in range(8)]
    assert statuses[:4] == [201] * 4 and 429 in statuses
    answer = client.post(f"/topics/{topic}/events?type=a", {})
    assert (answer.status, answer.error) == (429, "TooManyRequests") and int(answer.headers["retry-after"]) >= 1
    assert http_server.client().post(f"/topics/{topic}/events?type=a", {}).status == 201, "others are not limited by it"
    assert len(http_server.log(topic)) == statuses.count(201) + 1


def test_same_idempotency_key_is_one_event_and_one_answer(http_server: RunningServer, topic: str) -> None:
    client = http_server.client()
    path = f"/topics/{topic}/events?type=order.placed"
    first, again = [client.post(path, {"n": 1}, idempotency_key="7-a", traceparent=f"00-{n}") for n in range(2)]
    assert (first.status, first.body) == (again.status, again.body) == (201, first.body)
    assert "idempotent-replayed" not in first.headers and again.headers["idempotent-replayed"] == "true"
    other = client.post(path, {"n": 2}, idempotency_key="7-a")
    assert (other.status, other.error) == (422, "IdempotencyKeyReused")
    assert client.post(f"{path}&key=k", {"n": 1}, idempotency_key='"7-a"').status == 422
    assert http_server.client().post(path, {"n": 1}, idempotency_key="7-a").json != first.json, "another token, another key"
    assert [event.payload for event in http_server.log(topic)] == [{"n": 1}, {"n": 1}]


def test_batch_under_one_key_is_published_once(http_server: RunningServer, topic: str) -> None:
    client = http_server.client()
    batch = [cloudevent(data={"n": n}) for n in range(5)]
    answers = [client.post(f"/topics/{topic}/events", batch, content_type=BATCH, idempotency_key="b") for _ in range(2)]
    assert answers[0].body == answers[1].body
    assert client.post(f"/topics/{topic}/events", batch[:4], content_type=BATCH, idempotency_key="b").status == 422
    assert len(http_server.log(topic)) == 5


def test_failed_request_does_not_use_up_its_key(http_server: RunningServer, topic: str) -> None:
    client = http_server.client()
    assert client.post(f"/topics/{topic}/events?type=1", {}, idempotency_key="f").status == 422
    assert client.post(f"/topics/{topic}/events?type=a", {}, idempotency_key="f").status == 201


def test_expired_key_with_the_same_content_is_still_one_event(http_server: RunningServer, topic: str) -> None:
    client = http_server.client()
    first = client.post(f"/topics/{topic}/events?type=a", {"n": 1}, idempotency_key="old")
    http_server.log(topic)
    http_server.conn.execute("update headrace_internal.idempotency_key set created_at = created_at - interval '25 hours'")
    assert http_server.conn.execute("select headrace_internal.trim_idempotency_keys()").fetchone() != (0,)
    again = client.post(f"/topics/{topic}/events?type=a", {"n": 1}, idempotency_key="old")
    assert again.json == first.json and len(http_server.log(topic)) == 1
    assert client.post(f"/topics/{topic}/events?type=a", {"n": 2}, idempotency_key="old").status == 422


def test_holder_of_another_token_cannot_take_the_ids_of_a_request_beforehand(http_server: RunningServer, topic: str) -> None:
    """Namespace and number of a token, key and content of a request may be known; the token itself is not."""
    client, other = http_server.client(name="victim"), http_server.client(name="taker")
    (token_id,) = http_server.conn.execute("select token_id from headrace.access_token where name = 'victim'").fetchone() or (0,)
    request = EventRequest([Event(topic=topic, type="a", payload=msgspec.Raw(b'{"n": 1}'), producer="victim")], False, "order-1")
    (guessed,) = request.events_under_key(f"idempotency-key default {token_id}", request.digest(topic))
    assert other.post(f"/topics/{topic}/events?type=a&id={guessed.id}", {"n": 2}).status == 201
    assert client.post(f"/topics/{topic}/events?type=a", {"n": 1}, idempotency_key="order-1").status == 201
    assert [event.payload for event in http_server.log(topic)] == [{"n": 2}, {"n": 1}]


def test_duplicate_headers_that_decide_something_are_400(http_server: RunningServer) -> None:
    import http.client

    token = http_server.client().token
    for name in ("authorization", "content-type", "idempotency-key", "event-type"):
        conn = http.client.HTTPConnection("127.0.0.1", http_server.port, timeout=10)
        conn.putrequest("POST", "/topics/orders/events")
        values = {
            "authorization": f"Bearer {token}",
            "content-type": "application/json",
            "event-type": "a",
            "idempotency-key": "k",
        }
        for header, value in values.items():
            for _ in range(2 if header == name else 1):
                conn.putheader(header, value)
        conn.putheader("content-length", "2")
        conn.endheaders(b"{}")
        assert conn.getresponse().status == 400, name
        conn.close()


def test_last_use_is_recorded(server: Server) -> None:
    with run_server(server, IngestSettings(address=LOOPBACK)) as http_server:
        assert http_server.client(name="used").get("/topics/orders/events").status == 200
        http_server.client(name="unused")
        database = http_server.database
    from headrace.db import connect

    with connect(database) as conn:
        tokens = {token.name: token.last_used_at for token in list_access_tokens(conn)}
    assert tokens["used"] is not None and tokens["unused"] is None


def test_event_id_in_the_url_is_that_of_the_event(http_server: RunningServer, topic: str) -> None:
    id = uuid4()
    client = http_server.client()
    for _ in range(2):
        assert client.post(f"/topics/{topic}/events?type=a&id={id}", {}).json == {"ids": [str(id)]}
    assert [event.id for event in http_server.log(topic)] == [UUID(str(id))]
