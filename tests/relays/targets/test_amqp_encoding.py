"""Our AMQP 1.0 encoding against the library's: a reader gets the same message from both."""

from __future__ import annotations

from typing import Any

from hypothesis import given, strategies as st
from rstream import AMQPMessage, Properties, amqp_decoder

from headrace.relays.targets.rabbitmq_stream import encode_header, encode_message

TEXT = st.text(st.characters(codec="utf-8"), max_size=300)
# Lengths around 255 bytes, where the encoding takes another form.
LONG_TEXT = st.integers(250, 260).map(lambda length: "x" * length)


def _sections(data: bytes) -> tuple[Any, ...]:
    message = amqp_decoder(data)
    properties = message.properties
    return (properties.message_id, properties.subject, properties.content_type, message.application_properties, message.body)


@given(
    message_id=TEXT,
    subject=TEXT | LONG_TEXT,
    headers=st.dictionaries(TEXT | LONG_TEXT, TEXT | LONG_TEXT, min_size=1, max_size=60),
    body=st.binary(min_size=1, max_size=300) | st.just(b"b" * 70_000),
)
def test_message_reads_like_one_of_the_library(message_id: str, subject: str, headers: dict[str, str], body: bytes) -> None:
    content_type = "application/json"
    ours = encode_message(
        message_id=message_id,
        subject=subject,
        content_type=content_type,
        headers=[encode_header(name, value) for name, value in headers.items()],
        body=body,
    )
    properties = Properties(message_id=message_id, subject=subject, content_type=content_type)
    theirs = bytes(AMQPMessage(properties=properties, application_properties=headers, body=body))
    assert _sections(ours) == _sections(theirs)
