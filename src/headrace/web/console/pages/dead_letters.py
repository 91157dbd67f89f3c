"""Dead letters: groups with the same kind of error, and one letter with its error, an edit with a diff, redrive and discard."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from urllib.parse import quote

from headrace import actions
from headrace.core import Conflict, Invalid, decode, raw_json
from headrace.db import Connection, Target, fetch_value
from headrace.web.console.pages.event_search import parse_position
from headrace.web.console.routes import change, read
from headrace.web.console.site import Job
from headrace.web.console.tables import Column, Row, Table, fetch_dicts, wide
from headrace.web.console.texts import diff_lines, format_number, payload_text
from headrace.web.console.view import Done, Page, View

STEP = 200
"""Dead letters of one transaction."""
PAGE_ROWS = 100
EXPORT_ROWS = 10_000
DISCARD_MAX = 10_000
"""Letters of a shard that one discard takes; it is one transaction."""


@dataclass(frozen=True)
class Group:
    """What the letters of a group have in common. It is the query of the group's page."""

    kind: str
    source: str
    name: str
    reason: str
    error: str

    @classmethod
    def from_fields(cls, fields: Mapping[str, str]) -> Group:
        group = cls(**{field: fields.get(field, "") for field in cls.__dataclass_fields__})
        if group.kind not in ("action", "event"):
            raise Invalid("choose a group of dead letters on the page Dead letters")
        return group

    @property
    def label(self) -> str:
        return self.name if self.kind == "action" else self.source

    def url(self, view: View, path: str = "/dead-letters/group", **parameters: object) -> str:
        return view.url(path, **{**vars(self), **parameters})

    def letters(self, view: View, conn: Connection, *, after: int, limit: int, only_open: bool) -> list[Row]:
        """Lists the letters after an id, at most `limit`."""
        options = {"after": after, "limit": limit, "open": only_open}
        return fetch_dicts(conn, "dead_letters", namespace=view.namespace, **vars(self), **options)


@dataclass(frozen=True)
class Count:
    """How many letters a group has, or at least how many."""

    letters: int
    is_more: bool = False

    def __str__(self) -> str:
        return format_number(self.letters) + ("+" if self.is_more else "")


def list_groups(view: View) -> Page:
    """How many dead letters there are, by what they have in common."""
    rows = [
        {**row, "of": f"action {row['name']}" if row["kind"] == "action" else f"events of {row['source']}"}
        for row in view.fetch("dead_letters_groups")
    ]
    columns = (
        Column("error_group", "error", link=lambda row: _group_of(row).url(view, shard=_shard(view, row))),
        "of",
        wide("reason"),
        Column("dead", hint="Counted up to a bound; + stands for more"),
        Column("marked", "redriven soon", wide=True, hint="Events marked for a redrive; a running consumer takes them"),
        Column("last_at", "newest"),
        Column("first_at", "oldest", wide=True),
    )
    key, text = ("error_group", "of", "reason"), "No dead letters. Everything was handled."
    table = Table("groups", columns, rows, empty="headrace dead-letter list", empty_text=text, key=key)
    values = {"dead_actions": _total(rows, "action"), "dead_events": _total(rows, "event")}
    return Page("dead_letters.html", "Dead letters", tables=(table,), values=values)


def count_letters(view: View, conn: Connection) -> int:
    """The dead letters of actions and events on one shard; each group is counted up to a bound."""
    rows = fetch_dicts(conn, "dead_letters_groups", namespace=view.namespace)
    return sum(_total(rows, kind).letters for kind in ("action", "event"))


def _total(rows: Sequence[Row], kind: str) -> Count:
    own = [row for row in rows if row["kind"] == kind]
    return Count(sum(row["dead"] + row["marked"] for row in own), any(row["is_more"] for row in own))


def _group_of(row: Row) -> Group:
    return Group(row["kind"], row["source"], row["name"] or "", row["reason"], row["error_group"] or "")


def _shard(view: View, row: Row) -> str | None:
    return row["shard"] if len(view.shards) > 1 else view.shard


def show_group(view: View) -> Page:
    """The letters of a group, a page of them; what happened to the first one that was redriven, and the progress of the rest."""
    group = Group.from_fields(view.query)
    after = parse_position(view.query.get("after", "")) or 0
    rows = EXPORT_ROWS if view.query.get("format") else PAGE_ROWS
    letters = view.collect(lambda conn: group.letters(view, conn, after=after, limit=rows + 1, only_open=False))
    columns = (
        Column("id", "dead letter", link=lambda row: letter_url(view, row["id"], shard=_shard(view, row))),
        Column("name", "action" if group.kind == "action" else "type", wide=True),
        "key state",
        wide("attempts"),
        Column("buried_at", "since"),
        wide("error"),
        Column("payload", kind="payload", wide=True),
    )
    is_one_shard = len(view.targets) == 1
    shown = letters[:rows] if is_one_shard else letters
    redrive = view.site.jobs.find(_job_key(view, group))
    values = {
        "group": group,
        "first_page": view.here(after=None) if after else None,
        # Each shard has its own places: pages are for one shard.
        "next_page": view.here(after=shown[-1]["number"]) if is_one_shard and len(letters) > rows else None,
        "count": _count(view, group),
        "first": _first(view, group),
        "redrive": redrive,
        "is_discarding": view.query.get("discard") == "1",
    }
    table = Table("letters", columns, shown, empty_text="This group has no dead letters any more.")
    return Page("dead_letters_group.html", group.label, tables=(table,), values=values)


def _count(view: View, group: Group) -> Count:
    rows = [row for row in view.fetch("dead_letters_groups") if _group_of(row) == group]
    return Count(sum(row["dead"] for row in rows), any(row["is_more"] for row in rows))


def _first(view: View, group: Group) -> Row | None:
    """What happened to the letter that was redriven first: its id is in the URL."""
    letter_id = view.query.get("first", "")
    if not letter_id:
        return None
    target, letter = find_letter(view, letter_id)
    state, error = letter.state, None
    if group.kind == "action" and letter.original_id:
        with view.reading(target) as conn:
            queued = actions.list_queued(conn, ids=[letter.original_id], namespace=view.namespace)
            results = actions.list_results(conn, [letter.original_id], namespace=view.namespace)
        later = [result for result in results if letter.redriven_at and result.ended_at >= letter.redriven_at]
        state = queued[0].state if queued else later[-1].outcome if later else letter.state
    elif letter.state in ("dead", "behind"):
        error = letter.error
    return {"id": letter_id, "state": {"redrive": "due", "redriven": "done"}.get(state, state), "error": error}


def redrive_group(view: View) -> Done:
    """Redrives the oldest letter of a group, or starts the redrive of all."""
    group = Group.from_fields(view.form)
    if view.form.get("how") == "one":
        return _redrive_first(view, group)
    total = _count(view, group)
    view.namespaces  # noqa: B018  Read now: the request is over when the thread needs the namespace.
    if not view.site.jobs.start(_job_key(view, group), Redrive(view, group, total.letters)):
        raise Conflict("a redrive of this group is running; wait for its end")
    return Done(f"{total} dead letters of {group.label} are sent to their handlers again", group.url(view))


def _redrive_first(view: View, group: Group) -> Done:
    for target in view.targets:
        with view.reading(target) as conn:
            letters = group.letters(view, conn, after=0, limit=1, only_open=True)
        if letters:
            letter_id = str(letters[0]["id"])
            change_letters(view, "redrive", [letter_id], target)
            message = f"dead letter {letter_id} will be handled again; watch it here before you redrive the others"
            return Done(message, group.url(view, first=letter_id))
    raise Conflict("this group has no dead letters any more")


class Redrive(Job):
    """Redrives the letters of a group, in small transactions: one for many thousands would hold locks for long and show nothing until
    its end. Each is a change of its own with its own audit event; a console that is stopped leaves the rest as dead letters.

    Only those that were dead when it began, by the clock of their own shard: one that dies again is left for a person to see."""

    def __init__(self, view: View, group: Group, total: int) -> None:
        super().__init__(total)
        self._view = view
        self._group = group
        self._targets = view.targets
        self._started_at: dict[str, datetime] = {}
        for target in self._targets:
            with view.reading(target) as conn:
                self._started_at[target.name] = fetch_value(conn, "select headrace.clock()", ())

    def run(self) -> None:
        for target in self._targets:
            after = 0
            while True:
                with self._view.reading(target) as conn:
                    letters = self._group.letters(self._view, conn, after=after, limit=STEP, only_open=True)
                if not letters:
                    break
                after = letters[-1]["number"]
                if ids := [str(row["id"]) for row in letters if row["buried_at"] < self._started_at[target.name]]:
                    self.done += change_letters(self._view, "redrive", ids, target)
                    self.total = max(self.done, self.total)


def discard_group(view: View) -> Done:
    """Discards the letters of a group that a person has seen counted."""
    group = Group.from_fields(view.form)
    if view.form.get("confirm") != "yes":
        raise Invalid("confirm that these dead letters may be discarded")
    count = 0
    for target in view.targets:
        with view.reading(target) as conn:
            letters = group.letters(view, conn, after=0, limit=DISCARD_MAX, only_open=True)
        if letters:
            count += change_letters(view, "discard", [str(row["id"]) for row in letters], target)
    return Done(f"{count} dead letters of {group.label} discarded", view.url("/dead-letters"))


def change_letters(view: View, what: str, ids: Sequence[str], target: Target) -> int:
    """Redrives or discards letters of one shard; returns how many were still open."""
    act = actions.redrive if what == "redrive" else actions.discard
    [(_, count)] = view.change(
        f"dead-letter.{what}",
        ids[0] if len(ids) == 1 else f"{len(ids)} dead letters",
        view.bind(act, ids),
        details={"ids": list(ids)},
        targets=[target],
    )
    return count


def _job_key(view: View, group: Group) -> tuple[object, ...]:
    return ("redrive", view.user.role, view.namespace, view.shard, group)


def letter_url(view: View, letter_id: str, path: str = "letter", **parameters: object) -> str:
    return view.url(f"/dead-letters/{path}/{quote(letter_id)}", **parameters)


def find_letter(view: View, letter_id: str) -> tuple[Target, actions.DeadLetter]:
    """A dead letter and its shard; raises UnknownDeadLetter."""
    return view.find(view.bind(actions.get_dead_letter, letter_id))


def show_letter(view: View) -> Page:
    """One dead letter: its error, what was sent, and a form to change what a redrive sends."""
    return _letter_page(view, preview=None)


def _letter_page(view: View, preview: str | None) -> Page:
    target, letter = find_letter(view, view.path["letter"])
    text, masked = payload_text(letter.payload), view.mask(letter.payload)
    is_action = letter.kind == "action"
    group = Group(letter.kind, letter.source, letter.name or "" if is_action else "", letter.reason, letter.error_group or "")
    facts = [
        ("State", letter.state),
        ("Action" if is_action else "Event type", letter.name),
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
        "original_url": view.url("/actions" if is_action else "/events", str(letter.original_id)) if letter.original_id else None,
        "is_open": letter.state in ("dead", "behind"),
        "is_masked": is_masked,
        "payload": masked,
        "text": view.form.get("payload", text),
        "edits": diff_lines(payload_text(view.mask(letter.original_payload)), payload_text(masked)) if letter.edited else [],
        "preview": None if preview is None else diff_lines(text, payload_text(decode(preview))),
        "is_discarding": view.query.get("discard") == "1",
    }
    return Page("dead_letter.html", f"Dead letter {letter.id}", values=values, is_live=False)


def edit(view: View) -> Done | Page:
    letter_id, text = view.path["letter"], view.form.get("payload", "")
    target, letter = find_letter(view, letter_id)
    # Exactly as it was typed, so that no digit is lost.
    payload = raw_json(text)
    if view.mask(letter.payload) != letter.payload:
        raise Invalid(
            "some fields of this payload are hidden from you, and an edit would lose them; ask somebody who may see them"
        )
    if view.form.get("step") != "save":
        return _letter_page(view, preview=text)
    view.change(
        "dead-letter.edit",
        letter_id,
        view.bind(actions.edit_dead_letter, letter_id, payload),
        state=lambda conn: {"payload": actions.get_dead_letter(conn, letter_id, namespace=view.namespace).payload},
        targets=[target],
    )
    return Done(f"dead letter {letter_id} changed; redrive it to send the new payload", letter_url(view, letter_id))


def change_letter(view: View, what: str) -> Done:
    letter_id = view.path["letter"]
    if what == "discard" and view.form.get("confirm") != "yes":
        raise Invalid("confirm that this dead letter may be discarded")
    target, letter = find_letter(view, letter_id)
    if not change_letters(view, what, [letter_id], target):
        raise Conflict(f"dead letter {letter_id} is {letter.state} already")
    if what == "discard":
        return Done(f"dead letter {letter_id} discarded", view.url("/dead-letters"))
    return Done(f"dead letter {letter_id} will be handled again", letter_url(view, letter_id))


ROUTES = (
    read("/dead-letters", list_groups),
    read("/dead-letters/group", show_group),
    change("/dead-letters/group/redrive", redrive_group),
    change("/dead-letters/group/discard", discard_group),
    read("/dead-letters/letter/{letter:path}", show_letter),
    change("/dead-letters/edit/{letter:path}", edit, form=show_letter),
    change("/dead-letters/redrive/{letter:path}", partial(change_letter, what="redrive"), form=show_letter),
    change("/dead-letters/discard/{letter:path}", partial(change_letter, what="discard"), form=show_letter),
)
