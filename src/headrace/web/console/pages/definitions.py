"""Definitions: the pages that all kinds share, derived from the fields of the kind: their list, one of them with its versions, the form,
first the plan and then apply; pause, resume and drop.

A kind has a subclass of DefinitionPages in the module of its pages, with what is special to it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from hashlib import blake2s
from typing import Any, ClassVar, Generic, TypeAlias, TypeVar
from urllib.parse import quote

import msgspec
from starlette.routing import Route

from headrace.actions import list_pauses
from headrace.core import Conflict, Forbidden, HeadraceError, Invalid, safe_line
from headrace.db import Connection, Shards, Target
from headrace.definitions import Definition, DefinitionKind, Field, list_actions
from headrace.definitions.schemas import Finding
from headrace.web.console.routes import change, read
from headrace.web.console.tables import Column, Row, Table, to_row
from headrace.web.console.texts import diff_words
from headrace.web.console.view import Done, Page, View

D = TypeVar("D", bound=Definition)
T = TypeVar("T")
Details: TypeAlias = tuple[list[Table], dict[str, object]]
"""The tables and the values of a kind's own template."""


@dataclass(frozen=True)
class Input:
    """An input of a form: a field with the text in it, and what can be chosen."""

    field: Field
    text: str
    hint: str
    choices: Sequence[str]
    """Without any the field takes any text."""
    suggestions: Sequence[str]

    @property
    def kind(self) -> str:
        if self.field.is_long or self.field.is_json:
            return "textarea"
        return "select" if self.choices else "number" if self.field.base is int else "text"


@dataclass(frozen=True)
class Plan(Generic[D]):
    """What applying would change."""

    definition: D
    changes: Sequence[Row]
    meaning: str | None
    effect: Row | None
    """What the change affects, such as keys that start afresh: its text, and its mood, good or warn."""
    findings: Sequence[Finding]
    details: Mapping[str, object]
    """What the template of the kind shows."""


class DefinitionPages(Generic[D]):
    """The pages of a kind of definition."""

    kind: ClassVar[DefinitionKind[Any, Any, Any]]
    listed: ClassVar[tuple[str, ...]]
    """The fields that the list of all shows, besides the name."""
    example: ClassVar[str]
    """A command that creates one."""
    plan_hint: ClassVar[str] = "Shows what would change. Nothing is changed yet."
    edit_hint: ClassVar[str] = ""
    """When a change takes effect."""
    applied_hint: ClassVar[str] = "; a running node activates it within a second"
    paused_hint: ClassVar[str] = ""
    """What a paused one still does."""
    drop_hint: ClassVar[str]
    """What goes with it, and what stays."""
    only_new: ClassVar[tuple[str, ...]] = ()
    """Fields that matter only when it is created: an edit leaves them as they are."""
    is_topic_any: ClassVar[bool] = True
    """False: not the topics of headrace itself."""

    def state_word(self, state: Any) -> str:
        """One word: a problem first, then what an operator did."""
        if state.status in ("invalid", "disabled"):
            return str(state.status)
        if state.paused:
            return "paused"
        if not self.kind.definition(state).active:
            return "not active"
        return "pending" if state.status == "pending" else "active"

    def columns(self, view: View) -> list[Column | str]:
        """Further columns of the list; `rows` has their values."""
        return []

    def rows(self, view: View, states: Sequence[tuple[str, Any]]) -> list[dict[str, Any]]:
        """Returns further values for the list's rows; `states` by shard."""
        return [{} for _ in states]

    def facts(self, view: View, state: Any) -> list[tuple[str, object]]:
        """What the page of one says of it beyond its fields."""
        return []

    def show_details(self, view: View, name: str, states: Sequence[tuple[str, Any]]) -> Details:
        """What the page of one shows besides; `states` by shard, none for one that was dropped."""
        return [], {}

    def choices(self, view: View, field: Field, text: str) -> Sequence[str]:
        if field.name == "topic":
            known = [topic for topic in view.topic_names() if self.is_topic_any or not topic.startswith("headrace.")]
            return known if text in known or not text else [*known, text]
        return ("yes", "no") if field.base is bool else field.choices

    def to_text(self, field: Field, value: Any) -> str:
        """A value as the form shows it; `from_text` reads it."""
        text = field.to_text(value)
        return msgspec.json.format(text, indent=2) if field.is_json and text else text

    def hint(self, field: Field) -> str:
        """What the form says beside a field."""
        return field.form_text

    def from_text(self, field: Field, text: str, before: D | None) -> Any:
        """The value of a text of the form. Raises Invalid."""
        return field.from_text(text)

    def find(self, view: View, definition: D) -> list[Finding]:
        return []

    def plan_details(self, view: View, definition: D, before: D | None) -> Details:
        return [], {}

    def list_all(self, view: View) -> Page:
        noun = self.kind.noun
        found = view.each_shard(view.bind(self.kind.list_all))
        states = [(shard, state) for shard, part in found for state in part]
        rows = [
            {**self._row(shard, state), **others} for (shard, state), others in zip(states, self.rows(view, states), strict=True)
        ]
        fields = {field.name: field for field in self.kind.fields}
        link = Column("topic", link=view.link("/topics", "topic"))
        columns = [
            Column(noun, link=lambda row: self.url(view, row[noun])),
            "state",
            *(link if name == "topic" else _list_column(fields[name]) for name in self.listed),
            *self.columns(view),
            *([Column("version", wide=True)] if self.kind.version_type else []),
            Column("problem", wide=True),
        ]
        table = Table(self.kind.list_name, columns, rows, empty=self.example, empty_text=f"There is no {noun} yet.")
        values = {"noun": noun, "create_url": view.url(f"{self.path}/-/create")}
        return Page("list.html", self.kind.list_name.capitalize(), tables=(table,), values=values)

    def _row(self, shard: str, state: Any) -> Row:
        definition = self.kind.definition(state)
        problem = (state.error or getattr(state, "warning", None) or "").strip()
        return {
            "shard": shard,
            self.kind.noun: definition.name,
            "state": self.state_word(state),
            **{field.name: self.list_value(field, getattr(definition, field.name)) for field in self.kind.fields[1:]},
            **{name: getattr(state, name, None) for name in ("version", "source", "written_at", "written_by")},
            "problem": problem.splitlines()[0] if problem else None,
        }

    def list_value(self, field: Field, value: Any) -> Any:
        """A value in the list and in its exports."""
        return " ".join(value.split()) if field.is_long and value else field.to_json(value)

    def show(self, view: View) -> Page:
        """One definition, also after an error of a form of one button. A dropped one keeps its versions."""
        noun, name = self.kind.noun, view.path.get("name") or self.form_name(view)
        found = view.each_shard(view.bind(self.kind.list_all, name=name))
        states = [(shard, state) for shard, part in found for state in part]
        has_versions = self.kind.version_type is not None
        versions = view.each_shard(view.bind(self.kind.versions, name))[0][1] if has_versions else []
        if not states and not versions:
            raise self.kind.unknown(f"there is no {noun} {name!r} in namespace {view.namespace!r}")
        state = states[0][1] if states else None
        pauses = [pause for _, parts in view.each_shard(view.bind(list_pauses)) for pause in parts]
        pauses = [pause for pause in pauses if (pause.kind, pause.name) == (noun, name)]
        tables, details = self.show_details(view, name, states)
        values = {
            "noun": noun,
            "path": self.path,
            "name": name,
            "state": state,
            "definition": self.kind.definition(state) if state else versions[-1],
            "word": self.state_word(state) if state else "dropped",
            "is_paused": bool(pauses) or getattr(state, "paused", False),
            "facts": self._facts(view, state) if state else [],
            "pauses": pauses,
            "paused_hint": self.paused_hint,
            "drop_hint": self.drop_hint,
            "versions": self.describe_versions(versions),
            **details,
        }
        if versions:
            names = ("version", *(field.name for field in self.kind.fields[1:]), "status", "written_at", "written_by")
            tables = [
                *tables,
                Table("versions", [Column(name) for name in names], [to_row(version) for version in versions[::-1]]),
            ]
        return Page(f"{noun}.html", name, tables=tables, values=values)

    def _facts(self, view: View, state: Any) -> list[tuple[str, object]]:
        definition = self.kind.definition(state)
        shown = [field for field in self.kind.fields[1:] if field.describe or not (field.is_long or field.is_json)]
        facts = [(field.title.capitalize(), field.in_words(getattr(definition, field.name))) for field in shown]
        names = {"version": "Version", "since_position": "Active from position", "written_at": "Changed", "written_by": "By"}
        facts += [(label, getattr(state, name)) for name, label in names.items() if hasattr(state, name)]
        return [*facts, ("Managed by", state.source), *self.facts(view, state)]

    def create_form(self, view: View) -> Page:
        """A new definition; with `plan` in the address also what it would do."""
        return self._form_page(view, _typed(view, self.kind.noun).strip(), None, None)

    def edit_form(self, view: View) -> Page:
        """A definition of today in a form; with `plan` in the address also what the change would do."""
        name = _typed(view, self.kind.noun)
        return self._form_page(view, name, *view.find(view.bind(self.kind.get, name)))

    def _form(self, view: View) -> Page:
        """The form again, after an error of `apply`."""
        return self.edit_form(view) if view.form.get("stamp") else self.create_form(view)

    def _form_page(self, view: View, name: str, target: Target | None, state: Any) -> Page:
        before = self.kind.definition(state) if state else None
        plan: Plan[D] | None = None
        tables: list[Table] = []
        texts = self._texts(view, before)
        fields = [field for field in self.kind.fields[1:] if before is None or not self._is_fixed(field)]
        if _is_typed(view):
            try:
                plan, tables = self._plan(view, self._definition(name, texts, before), before, target)
            except HeadraceError as error:
                view.error = view.error or str(error)
        values = {
            "noun": self.kind.noun,
            "path": self.path,
            "name": name,
            "name_example": self.kind.fields[0].example,
            "state": state,
            "stamp": _stamp(state, before) if before is not None else "",
            "texts": texts,
            "inputs": [self._input(view, field, texts[field.name]) for field in fields],
            "plan": plan,
            "plan_hint": self.plan_hint,
            "edit_hint": self.edit_hint,
            "address": f"{self.path}/-/{'edit' if state else 'create'}",
            **self.form_values(view, plan),
        }
        title = f"Edit {name}" if state else f"Create a {self.kind.noun}"
        return Page(self.form_template, title, tables=tables, values=values, is_live=self.is_form_live(plan))

    form_template: ClassVar[str] = "definition_edit.html"

    def form_values(self, view: View, plan: Plan[D] | None) -> dict[str, object]:
        return {}

    def is_form_live(self, plan: Plan[D] | None) -> bool:
        """True if something in the form's page goes on."""
        return False

    def _texts(self, view: View, before: D | None) -> dict[str, str]:
        """The texts of the form: what was typed, else the definition of today, else the defaults."""
        if _is_typed(view) and view.query.get("plan") != "now":
            return {field.name: _typed(view, field.name).replace("\r\n", "\n").strip() for field in self.kind.fields[1:]}
        if before is not None:
            return {field.name: self.to_text(field, getattr(before, field.name)) for field in self.kind.fields[1:]}
        return {
            field.name: _typed(view, field.name) or ("" if field.is_required else self.to_text(field, field.default))
            for field in self.kind.fields[1:]
        }

    def _input(self, view: View, field: Field, text: str) -> Input:
        suggestions: list[str] = []
        if field.name in ("event_type", "type"):
            suggestions = view.event_types()
        elif field.name == "action":
            names = {row["name"] for row in view.collect(view.bind(list_actions))}
            # Nodes report the actions they handle, whatever they are called: only what can be typed is suggested.
            suggestions = sorted(name for name in names if safe_line(name) == name)
        return Input(field, text, self.hint(field), self.choices(view, field, text), suggestions)

    def _is_fixed(self, field: Field) -> bool:
        return field.is_fixed or field.name in self.only_new

    def _definition(self, name: str, texts: Mapping[str, str], before: D | None) -> D:
        """The definition that was typed; an empty text is the default. Raises Invalid."""
        values: dict[str, Any] = {"name": name}
        for field in self.kind.fields[1:]:
            text = texts[field.name]
            if before is not None and self._is_fixed(field):
                values[field.name] = getattr(before, field.name)
            else:
                is_default = not text and not field.is_required
                values[field.name] = field.default if is_default else self.from_text(field, text, before)
        definition: D = self.kind.definition_type(**values)
        return definition

    def _plan(self, view: View, definition: D, before: D | None, target: Target | None) -> tuple[Plan[D], list[Table]]:
        """Checks the definition, compares it with the one of today, and tries it. Raises Invalid for what apply would reject."""
        self.kind.check(definition)
        changes = self.compare(before, definition) if before is not None else []
        meaning = self.kind.meaning(before, definition) if before is not None else None
        effect: Row | None = None
        findings: list[Finding] = []
        # Only what goes on is renewed while the page is open.
        if not view.query.get("live"):
            # Rolled back: the database says what is wrong with names and topics, as it will when the definition is applied.
            if not view.is_read_only:
                targets = self._targets(view, definition, target)
                # Who may not write can plan all the same.
                with suppress(Forbidden):
                    effect = self._effect(view.preview(lambda conn: self._write(conn, view, definition, before), targets=targets))
            findings = self.find(view, definition)
        tables, details = self.plan_details(view, definition, before)
        return Plan(definition, changes, meaning, effect, findings, details), tables

    def _write(self, conn: Connection, view: View, definition: D, before: D | None, source: str = "sql") -> Mapping[str, int]:
        if before is None:
            self.kind.create(conn, definition, namespace=view.namespace)
            return {}
        return self.kind.alter(conn, definition, namespace=view.namespace, source=source)

    def _targets(self, view: View, definition: D, target: Target | None) -> list[Target]:
        """The shards to write to: `target` has the definition of today."""
        if not self.kind.is_on_one_shard:
            return view.targets
        if target is not None:
            return [target]
        key = self.kind.shard_key(definition)
        return [Shards(view.targets).shard_of(definition.name if key is None else key)]

    def apply(self, view: View) -> Done:
        """Creates or changes the definition, if it is still the one that the plan has shown. The source stays: a definition of a file
        still belongs to it."""
        noun, name, stamp = self.kind.noun, view.text(self.kind.noun), view.form.get("stamp", "")
        before = target = None
        if stamp:
            target, state = view.find(view.bind(self.kind.get, name))
            before = self.kind.definition(state)
        definition = self._definition(name, self._texts(view, None), before)

        def act(conn: Connection) -> Mapping[str, int]:
            if before is None:
                return self._write(conn, view, definition, None)
            stored = self.kind.get(conn, name, namespace=view.namespace)
            if _stamp(stored, self.kind.definition(stored)) != stamp:
                version = (
                    f": it has version {stored.version}, the plan was made for {stamp}" if hasattr(stored, "version") else ""
                )
                raise Conflict(f"{noun} {name} was changed meanwhile{version}")
            return self._write(conn, view, definition, before, stored.source)

        state_of = lambda conn: self._audited(conn, view, name)  # noqa: E731
        what, targets = "alter" if stamp else "create", self._targets(view, definition, target)
        results = view.change(f"{noun}.{what}", name, act, state=state_of, targets=targets)
        effect = self._effect(results)
        done = f"{noun} {name} {'changed' if stamp else 'created'}"
        return Done(f"{done}: {effect['text']}" if effect else f"{done}{self.applied_hint}", self.url(view, name))

    def _effect(self, results: Sequence[tuple[str, Mapping[str, int]]]) -> Row | None:
        total: Counter[str] = Counter()
        for _, counts in results:
            total.update(counts)
        return self.describe_effect(total) if any(counts for _, counts in results) else None

    def describe_effect(self, counts: Mapping[str, int]) -> Row:
        """What a change affects, by the counts that the store gives."""
        return {"text": ", ".join(f"{count} {what}" for what, count in counts.items()), "mood": "warn"}

    def _audited(self, conn: Connection, view: View, name: str) -> object:
        """What the audit keeps of a definition before and after a change; None where there is none."""
        for state in self.kind.list_all(conn, name=name, namespace=view.namespace):
            definition = self.kind.definition(state)
            fields = {field.name: field.to_json(getattr(definition, field.name)) for field in self.kind.fields}
            return {"state": self.state_word(state), "version": getattr(state, "version", None), **fields}
        return None

    def compare(self, before: Any, after: Any) -> list[Row]:
        """The fields that differ, each with the differences of its text."""
        return [
            {"name": field.title, "parts": diff_words(self.to_text(field, old), self.to_text(field, new))}
            for field in self.kind.fields[1:]
            for old, new in [(getattr(before, field.name), getattr(after, field.name))]
            if old != new
        ]

    def describe_versions(self, versions: Sequence[Any]) -> list[Row]:
        """The versions, newest first, each with what it changed. A definition that was dropped and created again starts afresh."""
        texts: list[Row] = []
        before = None
        for version in versions:
            id_ = f"{self.kind.noun}_id"
            is_new = before is None or getattr(before, id_) != getattr(version, id_)
            changes = [] if is_new or version.dropped else self.compare(before, version)
            headline = "dropped" if version.dropped else "created" if is_new else "changed" if changes else "written again"
            if is_new and not version.dropped:
                long = [field for field in self.kind.fields if field.is_long]
                changes = [{"name": field.title, "parts": [(" ", getattr(version, field.name))]} for field in long]
            own = {name: getattr(version, name, None) for name in ("version", "written_at", "written_by", "status", "error")}
            texts.append({**own, "positions": _positions(version), "headline": headline, "changes": changes})
            before = version
        return texts[::-1]

    def pause(self, view: View) -> Done:
        reason = view.text("reason") or None
        name, _ = self.change(
            view, "pause", lambda conn, name: self.kind.pause(conn, name, reason=reason, namespace=view.namespace)
        )
        return Done(f"{self.kind.noun} {name} is paused{self.paused_hint and f': {self.paused_hint}'}", self.url(view, name))

    def resume(self, view: View) -> Done:
        name, counts = self.change(view, "resume", lambda conn, name: self.kind.resume(conn, name, namespace=view.namespace))
        return Done(f"{self.kind.noun} {name} goes on{self.resumed_hint(sum(counts))}", self.url(view, name))

    def resumed_hint(self, count: int) -> str:
        """What goes on, by the number that `resume` returns."""
        return ""

    def drop(self, view: View) -> Done:
        """Drops a definition; its versions stay on record."""
        name, _ = self.change(view, "drop", lambda conn, name: self.kind.drop(conn, name, namespace=view.namespace))
        return Done(f"{self.kind.noun} {name} dropped", view.url(self.path))

    def change(self, view: View, what: str, act: Callable[[Connection, str], T]) -> tuple[str, list[T]]:
        """Does something with the definition that a form of one button names; returns its name and what each shard answers."""
        noun, name = self.kind.noun, self.form_name(view)
        targets = None
        if self.kind.is_on_one_shard:
            targets = [view.find(view.bind(self.kind.get, name))[0]]
        reason = {"reason": view.text("reason")} if view.text("reason") else None
        state = lambda conn: self._audited(conn, view, name)  # noqa: E731
        results = view.change(f"{noun}.{what}", name, lambda conn: act(conn, name), state=state, details=reason, targets=targets)
        return name, [result for _, result in results]

    def form_name(self, view: View) -> str:
        if not (name := view.form.get(self.kind.noun, "")):
            raise Invalid(f"name the {self.kind.noun}")
        return name

    @cached_property
    def path(self) -> str:
        return f"/{self.kind.list_name}"

    def url(self, view: View, name: str, **parameters: object) -> str:
        """The page of one. A name may have slashes."""
        return view.url(f"{self.path}/{quote(name)}", **parameters)

    def routes(self) -> tuple[Route, ...]:
        """Names start with a letter or _, and may have slashes: `-` keeps the other pages apart."""
        return (
            read(self.path, self.list_all),
            read(f"{self.path}/-/create", self.create_form),
            read(f"{self.path}/-/edit", self.edit_form),
            change(f"{self.path}/-/apply", self.apply, form=self._form),
            change(f"{self.path}/-/pause", self.pause, form=self.show),
            change(f"{self.path}/-/resume", self.resume, form=self.show),
            change(f"{self.path}/-/drop", self.drop, form=self.show),
            read(f"{self.path}/{{name:path}}", self.show),
        )


def _list_column(field: Field) -> Column:
    is_wide = field.is_long or field.is_json
    return Column(field.name, field.title, kind="code" if is_wide and field.describe is None else None, wide=is_wide)


def _is_typed(view: View) -> bool:
    """True if the person has filled in the form: its values are in the address of the plan, or were sent to apply it."""
    return bool(view.form) or "plan" in view.query


def _typed(view: View, name: str) -> str:
    return view.form.get(name) or view.query.get(name, "")


def _stamp(state: Any, definition: Definition) -> str:
    """Which definition a plan was made for: its version, or a digest of what has none."""
    version = getattr(state, "version", None)
    return blake2s(repr(definition).encode(), digest_size=8).hexdigest() if version is None else str(version)


def _positions(version: Any) -> str | None:
    if not hasattr(version, "since_position"):
        return None
    if version.since_position is None:
        return "never active"
    until = "now" if version.until_position is None else version.until_position
    return f"active for positions {version.since_position} to {until}"
