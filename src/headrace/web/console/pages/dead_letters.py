"""Dead letters: one letter with its error, an edit with a diff, redrive and discard."""

from __future__ import annotations

import msgspec

from headrace import actions
from headrace.core import Conflict, Invalid, RawJSON, decode
from headrace.web.console.pages import dead_letters_groups
from headrace.web.console.pages.dead_letters_groups import Group, change_letters, find_letter, letter_url
from headrace.web.console.pages.text_diff import DiffLine, diff_lines
from headrace.web.console.routes import change, read
from headrace.web.console.texts import payload_text
from headrace.web.console.view import Done, Page, View


def show_letter(view: View) -> Page:
    """One dead letter: its error, what was sent, and a form to change what a redrive sends."""
    return _letter_page(view, preview=None)


def _letter_page(view: View, preview: str | None) -> Page:
    target, letter = find_letter(view, view.path["letter"])
    text, masked = payload_text(letter.payload), view.mask(letter.payload)
    group = Group(
        letter.kind, letter.source, letter.name or "" if letter.kind == "action" else "", letter.reason, letter.error_group or ""
    )
    facts = [
        ("State", letter.state),
        ("Action" if letter.kind == "action" else "Event type", letter.name),
        ("Key", letter.key),
        ("Reason", letter.reason),
        ("Attempts", letter.attempts),
        ("Since", letter.buried_at),
        ("Redriven", letter.redriven_at),
    ]
    is_masked = masked != letter.payload
    values = {
        "letter": letter,
        "shard": target.name if len(view.shards) > 1 else None,
        "facts": facts,
        "group_url": group.url(view),
        "original_url": view.url(f"/{'actions' if letter.kind == 'action' else 'events'}/{letter.original_id}")
        if letter.original_id
        else None,
        "is_open": letter.state in ("dead", "behind"),
        "is_masked": is_masked,
        "payload": masked,
        "text": view.form.get("payload", text),
        "edits": diff_lines(payload_text(view.mask(letter.original_payload)), payload_text(masked)) if letter.edited else [],
        "preview": _preview(text, preview) if preview is not None else None,
        "is_discarding": view.query.get("discard") == "1",
    }
    return Page("dead_letter.html", f"Dead letter {letter.id}", values=values, is_live=False)


def _preview(before: str, after: str) -> list[DiffLine]:
    return diff_lines(before, payload_text(decode(after)))


def _payload(text: str) -> RawJSON:
    """A payload exactly as it was typed, so that no digit is lost; raises InvalidPayload."""
    decode(text)
    return msgspec.Raw(text.encode())


def edit(view: View) -> Done | Page:
    """Shows what an edit changes, then writes it."""
    letter_id, text = view.path["letter"], view.form.get("payload", "")
    target, letter = find_letter(view, letter_id)
    payload = _payload(text)
    if view.mask(letter.payload) != letter.payload:
        raise Invalid(
            "some fields of this payload are hidden from you, and an edit would lose them; ask somebody who may see them"
        )
    if view.form.get("step") != "save":
        return _letter_page(view, preview=text)
    view.change(
        "dead-letter.edit",
        letter_id,
        lambda conn: actions.edit_dead_letter(conn, letter_id, payload, namespace=view.namespace),
        state=lambda conn: {"payload": actions.get_dead_letter(conn, letter_id, namespace=view.namespace).payload},
        targets=[target],
    )
    return Done(f"dead letter {letter_id} changed; redrive it to send the new payload", letter_url(view, letter_id))


def redrive_letter(view: View) -> Done:
    letter_id = view.path["letter"]
    target, letter = find_letter(view, letter_id)
    if not change_letters(view, "redrive", [letter_id], target):
        raise Conflict(f"dead letter {letter_id} is {letter.state} already")
    return Done(f"dead letter {letter_id} will be handled again", letter_url(view, letter_id))


def discard_letter(view: View) -> Done:
    letter_id = view.path["letter"]
    if view.form.get("confirm") != "yes":
        raise Invalid("confirm that this dead letter may be discarded")
    target, letter = find_letter(view, letter_id)
    if not change_letters(view, "discard", [letter_id], target):
        raise Conflict(f"dead letter {letter_id} is {letter.state} already")
    return Done(f"dead letter {letter_id} discarded", view.url("/dead-letters"))


ROUTES = (
    *dead_letters_groups.ROUTES,
    read("/dead-letters/letter/{letter:path}", show_letter),
    change("/dead-letters/edit/{letter:path}", edit, form=show_letter),
    change("/dead-letters/redrive/{letter:path}", redrive_letter, form=show_letter),
    change("/dead-letters/discard/{letter:path}", discard_letter, form=show_letter),
)
