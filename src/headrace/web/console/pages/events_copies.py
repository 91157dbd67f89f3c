"""Copies: a view or an event as SQL, Python, a shell command or curl, to be pasted elsewhere.

Everything is quoted for the language it is in: an event's text must not become code where it is pasted. Control characters are
written as escapes: a terminal would act on them."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from urllib.parse import quote, urlencode

from psycopg import sql

from headrace.core import safe_lines
from headrace.lang.condition import ConditionError, parse, to_postgres
from headrace.web.console.pages.events_words import Query
from headrace.web.console.view import View


@dataclass(frozen=True)
class Copy:
    """A text to copy, and the language it is in."""

    label: str
    text: str


def read_copies(view: View, words: Query) -> list[Copy]:
    """Ways to read the events of a view."""
    return [
        Copy("SQL", _read_sql(view, words)),
        Copy("Python", _read_python(view, words)),
        Copy("curl", _read_curl(view)),
        Copy("Shell", _read_shell(view, words)),
    ]


def publish_copies(view: View, topic: str, type: str, key: str | None, payload: str) -> list[Copy]:
    """Ways to publish an event."""
    return [
        Copy("SQL", _publish_sql(view, topic, type, key, payload)),
        Copy("Python", _publish_python(view, topic, type, key, payload)),
        Copy("curl", _publish_curl(view, topic, type, key, payload)),
        Copy("Shell", _publish_shell(view, topic, type, key, payload)),
    ]


def _literal(text: str) -> str:
    """A literal of SQL; with control characters as `U&'…\\001B…'`."""
    if safe_lines(text) == text:
        return sql.Literal(text).as_string(None)
    quoted = text.replace("\\", "\\\\").replace("'", "''")
    return "U&'" + "".join(char if safe_lines(char) == char else f"\\+{ord(char):06X}" for char in quoted) + "'"


def _word(text: str) -> str:
    """A word of a shell; with control characters as `$'…\\u001b…'`."""
    if safe_lines(text) == text:
        return shlex.quote(text)
    quoted = text.replace("\\", "\\\\").replace("'", "\\'")
    return "$'" + "".join(char if safe_lines(char) == char else f"\\U{ord(char):08x}" for char in quoted) + "'"


def _read_sql(view: View, words: Query) -> str:
    lines = [
        "select l.position, l.event_id, l.type, l.key, l.payload, l.appended_at",
        "from headrace.log l",
        f"where l.topic_id = headrace.topic_id({_literal(words.topic)}, {_literal(view.namespace)})",
    ]
    if words.types:
        lines.append(f"    and l.type in ({', '.join(map(_literal, words.types))})")
    if words.key:
        lines.append(f"    and l.key = {_literal(words.key)}")
    for name, text, sign in (("from", words.start, ">="), ("before", words.before, "<")):
        if text.isdigit():
            lines.append(f"    and l.position {sign} {text}")
        elif text and text not in ("earliest", "latest"):
            lines.append(f"    and l.appended_at {sign} {_literal(text)}::timestamptz  -- {name}")
    if words.where and words.match != "all":
        lines.append(f"    and ({_condition_sql(words.where)})")
    lines += [f"order by l.position{'' if words.start else ' desc'}", f"limit {words.limit};"]
    return "\n".join(lines)


def _condition_sql(text: str) -> str:
    """The condition as the database evaluates it; `false` if it is not valid, which the page says."""
    try:
        return to_postgres(parse(text))
    except ConditionError:
        return "false"


def _read_python(view: View, words: Query) -> str:
    place = f"conn, {words.topic!r}, namespace={view.namespace!r}"
    imports = ["from headrace.lang.condition import parse, to_python"] if words.where else []
    if words.start.isdigit():
        after = str(max(0, int(words.start) - 1))
    elif words.start:
        imports.insert(0, "from headrace.consume import seek_position")
        after = f"seek_position(conn, {words.topic!r}, {words.start!r}, namespace={view.namespace!r})"
    elif words.before.isdigit():
        after = str(max(0, int(words.before) - 1 - words.limit))
    else:
        after = f"get_topic({place}).last_position - {words.limit}"
    names = "get_topic, read_log" if "get_topic" in after else "read_log"
    lines = [*imports, f"from headrace.log.topics import {names}", ""]
    lines.append(f"events = read_log(conn, {words.topic!r}, after={after}, limit={words.limit}, namespace={view.namespace!r})")
    tests = [f"event.type in {words.types!r}"] if words.types else []
    tests += [f"event.key == {words.key!r}"] if words.key else []
    if words.where:
        lines.append(f"is_true = to_python(parse({words.where!r}))")
        tests.append("is_true(event) is True")
    if tests:
        lines.append(f"events = [event for event in events if {' and '.join(tests)}]")
    return "\n".join(lines)


def _read_curl(view: View) -> str:
    url = f"{view.request.scope['scheme']}://{view.request.headers['host']}{view.page_path}"
    _, _, parameters = view.here(format="json", show=None).partition("?")
    words = ["curl", "-H", '"Authorization: Bearer $HEADRACE_TOKEN"'] if view.user.role else ["curl"]
    return " ".join([*words, shlex.quote(f"{url}?{parameters}")])


def _read_shell(view: View, words: Query) -> str:
    command = ["headrace", "tail", words.topic, "--namespace", view.namespace]
    command += [part for name in words.types for part in ("--type", name)]
    command += ["--key", words.key] if words.key else []
    command += ["--where", words.where] if words.where else []
    command += ["--from", words.start, "-n", str(words.limit)] if words.start else ["-n", str(words.limit)]
    return " ".join(map(_word, command))


def _publish_sql(view: View, topic: str, type: str, key: str | None, payload: str) -> str:
    parts = [_literal(topic), _literal(type), f"{_literal(payload)}::jsonb"]
    parts += [f"p_key => {_literal(key)}"] if key else []
    parts.append(f"p_namespace => {_literal(view.namespace)}")
    return f"select headrace.publish({', '.join(parts)});"


def _publish_python(view: View, topic: str, type: str, key: str | None, payload: str) -> str:
    parts = [f"conn, {topic!r}, {type!r}, RawJSON({payload.encode()!r})"]
    parts += [f"key={key!r}"] if key else []
    parts.append(f"namespace={view.namespace!r}")
    return f"from headrace import publish\nfrom headrace.core import RawJSON\n\npublish({', '.join(parts)})"


def _publish_curl(view: View, topic: str, type: str, key: str | None, payload: str) -> str:
    """By HTTP, with an access token of the namespace; this console takes events only if it was started with --ingest."""
    base = str(view.request.base_url).rstrip("/") + "/ingest" if view.site.settings.ingest else "http://127.0.0.1:8640"
    words = urlencode({"type": type, **({"key": key} if key else {})}, quote_via=quote)
    return " ".join(
        [
            "curl",
            _word(f"{base}/topics/{quote(topic, safe='')}/events?{words}"),
            '-H "Authorization: Bearer $TOKEN"',
            "-H 'Content-Type: application/json'",
            f"-d {_word(payload)}",
        ]
    )


def _publish_shell(view: View, topic: str, type: str, key: str | None, payload: str) -> str:
    command = ["headrace", "publish", topic, type, payload, "--namespace", view.namespace]
    return " ".join(map(_word, command + (["--key", key] if key else [])))
