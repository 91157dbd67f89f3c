"""Dead letters: groups by error; one letter with its error and an edit with a diff; redrive one first, then all; discard."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import quote

import msgspec

from headrace import actions
from headrace.console.pages.dead_letters_redrives import STEP, percent, redrive_of, start_redrive
from headrace.console.pages.text_diff import DiffLine, diff_lines
from headrace.console.routes import change, read
from headrace.console.tables import Column, Row, Table, fetch_dicts
from headrace.console.texts import payload_text
from headrace.console.view import Done, Page, View
from headrace.core import Conflict, Invalid, RawJSON, UnknownDeadLetter, decode
from headrace.db import Connection, Target, query

GROUPED_MAX = 10_000
"""Letters of each kind that are counted by group, the oldest; a page costs the same whatever the dead letters."""
PAGE_ROWS = 100
PAGES_MAX = 100


@dataclass(frozen=True)
class Group:
    """What the letters of a group have in common. It is the query of the group's page."""

    kind: str
    source: str
    name: str
    reason: str
    error: str

    @classmethod
    def of(cls, fields: Mapping[str, str]) -> Group:
        group = cls(**{field: fields.get(field, "") for field in cls.__dataclass_fields__})
        if group.kind not in ("action", "event"):
            raise Invalid("choose a group of dead letters on the page Dead letters")
        return group

    @property
    def label(self) -> str:
        return self.name if self.kind == "action" else self.source

    def url(self, view: View, path: str = "/dead-letters/group", **parameters: object) -> str:
        return view.url(path, **{**vars(self), **parameters})

    def letters(self, view: View, conn: Connection, *, offset: int, limit: int, only_open: bool) -> list[Row]:
        statement = query(f"console/dead_letters_{self.kind}s")
        parameters = {**vars(self), "error": self.error or None, "offset": offset, "limit": limit, "open": only_open}
        return fetch_dicts(conn, statement, {**parameters, "namespace": view.namespace})


def list_groups(view: View) -> Page:
    """How many dead letters there are, by what they have in common."""
    rows = view.collect(
        lambda conn: fetch_dicts(conn, query("console/dead_letters_groups"), {"rows": GROUPED_MAX, "namespace": view.namespace})
    )
    states = [state for _, state in view.each_shard(lambda conn: actions.queue_state(conn, namespace=view.namespace))]
    rows = [{**row, "of": f"action {row['name']}" if row["kind"] == "action" else f"events of {row['source']}"} for row in rows]
    dead_actions = sum(state.dead for state in states)
    columns = (
        Column("error_group", "error", link=lambda row: _group_of(row).url(view, shard=_shard(view, row))),
        Column("of", "of"),
        Column("reason", wide=True),
        Column("dead", kind="number"),
        Column(
            "marked", "redriven soon", kind="number", wide=True, hint="Events marked for a redrive; a running consumer takes them"
        ),
        Column("last_at", "newest", kind="time"),
        Column("first_at", "oldest", kind="time", wide=True),
    )
    table = Table(
        "groups", columns, rows, empty="headrace dead-letter list", empty_text="No dead letters. Everything was handled."
    )
    values = {
        "dead_actions": dead_actions,
        "dead_events": sum(row["dead"] + row["marked"] for row in rows if row["kind"] == "event"),
        "is_cut": any(state.dead > GROUPED_MAX for state in states),
        "grouped_max": GROUPED_MAX,
    }
    return Page("dead_letters.html", "Dead letters", tables=(table,), values=values)


def _group_of(row: Row) -> Group:
    return Group(row["kind"], row["source"], row["name"] or "", row["reason"], row["error_group"] or "")


def _shard(view: View, row: Row) -> str | None:
    return row["shard"] if len(view.shards) > 1 else view.shard


def show_group(view: View) -> Page:
    """The letters of a group, a page of them; what happened to the first one that was redriven, and the progress of the rest."""
    group = Group.of(view.query)
    number = min(max(int(view.query.get("page", "1")) if view.query.get("page", "1").isdigit() else 1, 1), PAGES_MAX)
    offset = (number - 1) * PAGE_ROWS
    letters = view.collect(lambda conn: group.letters(view, conn, offset=offset, limit=PAGE_ROWS + 1, only_open=False))
    columns = (
        Column("id", "dead letter", link=lambda row: letter_url(view, row["id"], shard=_shard(view, row))),
        Column("name", "action" if group.kind == "action" else "type", wide=True),
        Column("key"),
        Column("state", kind="state"),
        Column("attempts", kind="number", wide=True),
        Column("buried_at", "since", kind="time"),
        Column("error", wide=True),
        Column("payload", kind="payload", wide=True),
    )
    shown = letters[:PAGE_ROWS] if len(view.targets) == 1 else letters
    redrive = redrive_of(view.site, _job(view, group))
    values = {
        "group": group,
        "page_number": number,
        "previous": view.here(page=number - 1) if number > 1 else None,
        "following": view.here(page=number + 1) if len(letters) > PAGE_ROWS and number < PAGES_MAX else None,
        "count": _count(view, group),
        "first": _first(view, group),
        "redrive": redrive,
        "percent": percent(redrive),
        "is_discarding": view.query.get("discard") == "1",
    }
    table = Table("letters", columns, shown, empty_text="This group has no dead letters any more.")
    return Page("dead_letters_group.html", group.label, tables=(table,), values=values)


def _count(view: View, group: Group) -> int:
    """How many letters the group has, of those that are counted."""
    parameters = {"rows": GROUPED_MAX, "namespace": view.namespace}
    rows = view.collect(lambda conn: fetch_dicts(conn, query("console/dead_letters_groups"), parameters))
    return sum(row["dead"] for row in rows if _group_of(row) == group)


def _first(view: View, group: Group) -> Row | None:
    """What happened to the letter that was redriven first: its id is in the URL."""
    letter_id = view.query.get("first", "")
    if not letter_id:
        return None
    _, letter = _find(view, letter_id)
    state, error = letter.state, None
    if group.kind == "action" and letter.original_id:
        with view.reading(view.targets[0]) as conn:
            queued = actions.list_queued(conn, ids=[letter.original_id], namespace=view.namespace)
            results = actions.list_results(conn, [letter.original_id], namespace=view.namespace)
        later = [result for result in results if letter.redriven_at and result.ended_at >= letter.redriven_at]
        state = queued[0].state if queued else later[-1].outcome if later else letter.state
    elif letter.state in ("dead", "behind"):
        error = letter.error
    return {"id": letter_id, "state": {"redrive": "due", "redriven": "done"}.get(state, state), "error": error}


def redrive_group(view: View) -> Done:
    """Redrives the oldest letter of a group, or starts the redrive of all."""
    group = Group.of(view.form)
    if view.form.get("how") == "one":
        return _redrive_first(view, group)
    total = _count(view, group)
    job = _job(view, group)
    targets = view.targets
    view.namespaces  # noqa: B018  Read now: the request is over when the thread needs the namespace.
    if not start_redrive(view.site, job, total, lambda: _redrive_step(view, group, targets)):
        raise Conflict("a redrive of this group is running; wait for its end")
    return Done(f"{total} dead letters of {group.label} are sent to their handlers again", group.url(view))


def _redrive_first(view: View, group: Group) -> Done:
    for target in view.targets:
        with view.reading(target) as conn:
            letters = group.letters(view, conn, offset=0, limit=1, only_open=True)
        if letters:
            letter_id = str(letters[0]["id"])
            _change_letters(view, "redrive", [letter_id], target)
            message = f"dead letter {letter_id} will be handled again; watch it here before you redrive the others"
            return Done(message, group.url(view, first=letter_id))
    raise Conflict("this group has no dead letters any more")


def _redrive_step(view: View, group: Group, targets: Sequence[Target]) -> int:
    """The next few letters of a group. A letter that dies again is a new one, and comes last; those are left for a person to see."""
    redrive = redrive_of(view.site, _job(view, group))
    for target in targets:
        with view.reading(target) as conn:
            letters = group.letters(view, conn, offset=0, limit=STEP, only_open=True)
        ids = [str(row["id"]) for row in letters if redrive is None or row["buried_at"] < redrive.started_at]
        if ids and (count := _change_letters(view, "redrive", ids, target)):
            return count
    return 0


def discard_group(view: View) -> Done:
    """Discards the letters of a group that a person has seen counted."""
    group = Group.of(view.form)
    if view.form.get("confirm") != "yes":
        raise Invalid("confirm that these dead letters may be discarded")
    count = 0
    for target in view.targets:
        with view.reading(target) as conn:
            letters = group.letters(view, conn, offset=0, limit=GROUPED_MAX, only_open=True)
        if letters:
            count += _change_letters(view, "discard", [str(row["id"]) for row in letters], target)
    return Done(f"{count} dead letters of {group.label} discarded", view.url("/dead-letters"))


def _change_letters(view: View, what: str, ids: Sequence[str], target: Target) -> int:
    act = actions.redrive if what == "redrive" else actions.discard
    [(_, count)] = view.change(
        f"dead-letter.{what}",
        ids[0] if len(ids) == 1 else f"{len(ids)} dead letters",
        lambda conn: act(conn, ids, namespace=view.namespace),
        details={"ids": list(ids)},
        targets=[target],
    )
    return count


def _job(view: View, group: Group) -> tuple[object, ...]:
    return (view.user.role, view.namespace, view.shard, group)


def show_letter(view: View) -> Page:
    """One dead letter: its error, what was sent, and a form to change what a redrive sends."""
    return _letter_page(view, preview=None)


def _letter_page(view: View, preview: str | None) -> Page:
    target, letter = _find(view, view.path["letter"])
    original = letter.envelope.get("payload") if isinstance(letter.envelope, Mapping) else letter.payload
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
        "edits": diff_lines(payload_text(view.mask(original)), payload_text(masked)) if letter.edited else [],
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
    target, letter = _find(view, letter_id)
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
    target, letter = _find(view, letter_id)
    if not _change_letters(view, "redrive", [letter_id], target):
        raise Conflict(f"dead letter {letter_id} is {letter.state} already")
    return Done(f"dead letter {letter_id} will be handled again", letter_url(view, letter_id))


def discard_letter(view: View) -> Done:
    letter_id = view.path["letter"]
    if view.form.get("confirm") != "yes":
        raise Invalid("confirm that this dead letter may be discarded")
    target, letter = _find(view, letter_id)
    if not _change_letters(view, "discard", [letter_id], target):
        raise Conflict(f"dead letter {letter_id} is {letter.state} already")
    return Done(f"dead letter {letter_id} discarded", view.url("/dead-letters"))


def letter_url(view: View, letter_id: str, path: str = "letter", **parameters: object) -> str:
    return view.url(f"/dead-letters/{path}/{quote(letter_id)}", **parameters)


def _find(view: View, letter_id: str) -> tuple[Target, actions.DeadLetter]:
    """A dead letter and its shard; raises UnknownDeadLetter."""
    missing: UnknownDeadLetter | None = None
    for target in view.targets:
        try:
            with view.reading(target) as conn:
                return target, actions.get_dead_letter(conn, letter_id, namespace=view.namespace)
        except UnknownDeadLetter as error:
            missing = error
    raise missing or UnknownDeadLetter(f"there is no dead letter {letter_id}")


ROUTES = (
    read("/dead-letters", list_groups),
    read("/dead-letters/group", show_group),
    change("/dead-letters/group/redrive", redrive_group),
    change("/dead-letters/group/discard", discard_group),
    read("/dead-letters/letter/{letter:path}", show_letter),
    change("/dead-letters/edit/{letter:path}", edit, form=show_letter),
    change("/dead-letters/redrive/{letter:path}", redrive_letter, form=show_letter),
    change("/dead-letters/discard/{letter:path}", discard_letter, form=show_letter),
)
