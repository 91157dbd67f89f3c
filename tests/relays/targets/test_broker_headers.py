"""Headers of brokers' messages."""

from __future__ import annotations

from headrace.relays.targets.broker import HeaderEncoder
from tests.relays.targets.builders import build_message, with_headers


def test_headers_that_an_event_may_not_set_are_left_out_and_no_name_occurs_twice() -> None:
    message = with_headers(
        build_message("orders", 1),
        **{"headrace-position": "9", " Headrace-Relay": "x", "CC": "copy", "content-type": "text/plain"},
    )
    encoder = HeaderEncoder(lambda name, value: (name, value), reserved=("cc",))
    for _ in range(2):
        headers = encoder.encode(message)
        names = [name for name, _ in headers]
        assert len(names) == len(set(names))
        assert dict(headers)["headrace-position"] == str(message.position)
        assert dict(headers)["content-type"] == "text/plain"
        assert not {" Headrace-Relay", "CC"} & set(names)
