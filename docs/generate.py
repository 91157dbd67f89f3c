"""Writes the reference pages in docs/reference, the list of decisions, and the table of help lines.

`python docs/generate.py` writes them; `python docs/generate.py --check` fails if one is stale. A test runs the check."""

from __future__ import annotations

import ast
import difflib
import enum
import inspect
import json
import re
import sys
from collections.abc import Callable, Iterator
from datetime import timedelta
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any, ForwardRef, NamedTuple

from headrace.cli.options import ENVIRONMENT, SQL, Setting
from headrace.cli.program import command_names, load_command
from headrace.core import HeadraceError, Payload
from headrace.correlators import CORRELATORS
from headrace.db.sql_files import Kind, sql_files
from headrace.definitions import Field
from headrace.relays import RELAYS
from headrace.rules import RULES
from headrace.schedules import SCHEDULES

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src/headrace"
NOTICE = "Generated from the code by `docs/generate.py`; do not edit."
COMMON = {"dsn", "namespace", "json", "help"}
# The order of the rooms in the page.
ROOMS = (
    "core", "drivers", "log.outbox", "log.topics", "consume", "definitions", "definitions.schemas", "rules", "correlators",
    "actions", "schedules", "relays", "log.archive", "log.arrow", "spark", "spark.source", "spark.sink",
    "spark.stream", "spark.pipeline", "spark.backtest", "node", "web.http", "web.console", "testing",
    "observe.history", "observe.doctor", "observe.metrics", "observe.tracing", "lang.condition", "lang.ecl", "db",
)  # fmt: skip
# Programs, and rooms that only other rooms use.
UNLISTED = ("cli", "demo", "prove", "evaluate", "observe.reports")
EXIT_CODES = {
    0: "done",
    1: "failed",
    2: "wrong usage",
    3: "not found",
    4: "conflict",
    5: "invalid",
    6: "ran and found problems",
}


def main() -> None:
    check = "--check" in sys.argv[1:]
    stale = [path for path, text in pages().items() if not path.exists() or path.read_text(encoding="utf-8") != text]
    for path in stale:
        text = pages()[path]
        if check:
            before = path.read_text(encoding="utf-8") if path.exists() else ""
            sys.stdout.writelines(list(difflib.unified_diff(before.splitlines(True), text.splitlines(True), str(path)))[:20])
        else:
            path.write_text(text, encoding="utf-8")
            sys.stdout.write(f"{path.relative_to(ROOT)} written\n")
    if check and stale:
        raise SystemExit("stale pages; run: python docs/generate.py")


def pages() -> dict[Path, str]:
    """All generated files with their texts."""
    writers: dict[str, Callable[[], Iterator[str]]] = {
        "cli.md": cli_page,
        "python.md": python_page,
        "settings.md": settings_page,
        "errors.md": errors_page,
        "sql.md": sql_page,
        "definitions.md": definitions_page,
    }
    texts = {ROOT / "docs/reference" / name: "\n".join(write()).rstrip("\n") + "\n" for name, write in writers.items()}
    return texts | {PACKAGE / "cli/help_lines.tsv": help_lines(), ROOT / "docs/adr/README.md": "\n".join(decisions_page()) + "\n"}


# The command line


def commands() -> Iterator[tuple[str, Any]]:
    """Every command and group, with the words that call it."""
    for name in command_names():
        command = load_command(name)
        yield name, command
        for child, subcommand in getattr(command, "commands", {}).items():
            yield f"{name} {child}", subcommand


def help_lines() -> str:
    return "".join(f"{words}\t{help_line(command)}\n" for words, command in commands())


def help_line(command: Any) -> str:
    """The first paragraph of a command's help, on one line."""
    return " ".join(str(command.help).split("\n\n")[0].split())


def cli_page() -> Iterator[str]:
    yield f"""# Command line

{NOTICE}

`headrace` (or `python -m headrace`) works on the databases of `--dsn`, or else of `HEADRACE_DSN` or `DATABASE_URL`. Without
them it starts an embedded PostgreSQL. Several shards are written as `name=address`, separated by spaces; a command then works
on all of them.

Results go to standard output, everything else to standard error. With `--json` a result is one JSON document, or one per line
for a stream, and an error is `{{"error": class, "message": text}}`. For shell completion, run `headrace --install-completion`.

| exit code | meaning |
|---|---|"""
    yield from (f"| {code} | {meaning} |" for code, meaning in EXIT_CODES.items())
    yield """
Most commands have these options:

| option | |
|---|---|
| `--dsn TEXT` | database, instead of `HEADRACE_DSN`; several shards as `name=address …` |
| `--namespace TEXT` | namespace, instead of `default` |
| `--json` | print JSON |
| `-h`, `--help` | print help |

## Contents

| command | |
|---|---|"""
    everything = list(commands())
    yield from (f"| [{words}](#headrace-{words}) | {help_line(command)} |" for words, command in everything if " " not in words)
    for words, command in everything:
        yield from _group_section(words, command) if hasattr(command, "commands") else _command_section(words, command)


def _group_section(words: str, command: Any) -> Iterator[str]:
    yield f"\n## headrace {words}\n\n{help_line(command)}"


def _command_section(words: str, command: Any) -> Iterator[str]:
    arguments = [parameter for parameter in command.params if parameter.param_type_name == "argument"]
    required = [parameter for parameter in command.params if parameter.param_type_name == "option" and parameter.required]
    usage = " ".join(
        [_metavar(one) if one.required else f"[{_metavar(one)}]" for one in arguments]
        + [f"{one.opts[0]} {one.opts[0].removeprefix('--').upper().replace('-', '_')}" for one in required]
    )
    yield f"\n{'###' if ' ' in words else '##'} headrace {words}\n\n`headrace {words} {usage}".rstrip() + "`\n"
    yield "\n\n".join(_help_paragraph(" ".join(paragraph.split())) for paragraph in (command.help or "").split("\n\n"))
    rows = [_option_row(parameter) for parameter in command.params if parameter.name not in COMMON]
    if rows:
        yield "\n" + "\n".join(["| | |", "|---|---|", *rows])


def _help_paragraph(paragraph: str) -> str:
    """A paragraph of help; examples become code."""
    kind, colon, examples = paragraph.partition(": ")
    if not colon or kind not in ("Example", "Examples"):
        return paragraph
    return "\n".join(f"    {example}" for example in examples.split(" · "))


def _metavar(argument: Any) -> str:
    return str(argument.metavar or argument.name.upper())


def _option_row(parameter: Any) -> str:
    is_argument = parameter.param_type_name == "argument"
    names = [_metavar(parameter)] if is_argument else [*parameter.opts, *parameter.secondary_opts]
    default = parameter.show_default if isinstance(parameter.show_default, str) else parameter.default
    is_shown = isinstance(parameter.show_default, str) or (parameter.show_default and default not in (None, False))
    text = parameter.help.rstrip(".") + (f" (default: {default})" if is_shown and not parameter.required else "")
    return f"| {', '.join(f'`{name}`' for name in names)} | {_cell(text)} |"


# Python


def python_page() -> Iterator[str]:
    yield f"""# Python

{NOTICE}

`import headrace` gives an application what it needs; it loads a name's room when the name is first used. The rooms list
everything that you may import. Errors have [their own page](errors.md).

## Contents

| room | |
|---|---|"""
    rooms = {f"headrace.{room}": import_module(f"headrace.{room}") for room in _rooms()}
    application = import_module("headrace")
    yield f"| [headrace](#headrace) | {_cell(_paragraph(application))} |"
    yield from (f"| [{name}](#{name.replace('.', '')}) | {_cell(_paragraph(room))} |" for name, room in rooms.items())
    yield f"\n## headrace\n\n{_paragraph(application)}\n\n| name | room | |\n|---|---|---|"
    for name in application.__all__:
        value = getattr(application, name)
        home = next(room for room, module in rooms.items() if name in _public_names(room) and getattr(module, name) is value)
        place = "[errors](errors.md)" if _is_error(value) else f"[{home}](#{name.lower()})"
        yield f"| `{name}` | {place} | {_cell(_description(value))} |"
    for room_name, room in rooms.items():
        yield f"\n## {room_name}\n\n{_paragraph(room)}"
        values = {name: getattr(room, name) for name in sorted(_public_names(room_name), key=str.lower)}
        errors = [f"`{name}`" for name, value in values.items() if _is_error(value)]
        yield from [f"\nErrors: {', '.join(errors)}."] if errors else []
        for name, value in values.items():
            if not _is_error(value):
                signature, description = _signature(name, value), _description(value)
                yield f"\n### {name}\n"
                yield from [f"```python\n{signature}\n```"] if signature else []
                yield from ["", description] if description else []
                yield from _methods(name, value)


def _methods(name: str, value: Any) -> Iterator[str]:
    """The public methods and properties of a class, in the order of the source. Protocols and enumerations describe themselves."""
    if not inspect.isclass(value) or issubclass(value, enum.Enum):
        return
    for method_name, member in _members(value):
        if isinstance(member, property):
            yield f"\n#### {name}.{method_name}\n\n{_paragraph(member)}"
        else:
            call = _signature(method_name, getattr(value, method_name)).replace("(self, ", "(").replace("(self)", "()")
            call = call.replace("(\n    self,\n", "(\n")
            yield f"\n#### {name}.{method_name}\n\n```python\n{call}\n```\n\n{_paragraph(member)}"


def _members(owner: type) -> Iterator[tuple[str, Any]]:
    """Members with a docstring, of the class itself first, then of its bases of ours."""
    seen: set[str] = set()
    for base in (base for base in owner.__mro__ if base.__module__.startswith("headrace")):
        for name, member in vars(base).items():
            function = member.__func__ if isinstance(member, classmethod | staticmethod) else member
            is_documented = (inspect.isfunction(function) or isinstance(member, property)) and bool(function.__doc__)
            if not name.startswith("_") and is_documented and name not in seen:
                yield name, function
            seen.add(name)


def _rooms() -> list[str]:
    """All packages with public names, without those of UNLISTED; in the order of ROOMS, others last."""
    packages = [path.parent.relative_to(PACKAGE).as_posix().replace("/", ".") for path in PACKAGE.rglob("__init__.py")]
    hidden = tuple(f"{room}." for room in UNLISTED)
    rooms = [room for room in packages if room != "." and not f"{room}.".startswith(hidden) and _lists_names(room)]
    return sorted(rooms, key=lambda room: (ROOMS.index(room) if room in ROOMS else len(ROOMS), room))


def _lists_names(room: str) -> bool:
    source = _source(f"headrace.{room}")
    return "__all__" in source or re.search(r"\b(\w+) as \1\b", source) is not None


@cache
def _public_names(room: str) -> list[str]:
    """The names that a package lists: in `__all__`, or by importing them under their own name (`from … import X as X`)."""
    module = import_module(room)
    if hasattr(module, "__all__"):
        return list(module.__all__)
    imports = [node for node in ast.walk(ast.parse(_source(room))) if isinstance(node, ast.ImportFrom)]
    starred = {node.module for node in imports if node.names[0].name == "*"}
    errors = [name for name, value in vars(module).items() if getattr(value, "__module__", None) in starred and _is_error(value)]
    return errors + [alias.name for node in imports for alias in node.names if alias.asname == alias.name]


def _source(package: str) -> str:
    return (PACKAGE.parent / package.replace(".", "/") / "__init__.py").read_text(encoding="utf-8")


def _is_error(value: object) -> bool:
    return isinstance(value, type) and issubclass(value, HeadraceError)


def _description(value: Any) -> str:
    """The first paragraph of a docstring; empty for constants and type aliases, which have none of their own."""
    return _paragraph(value) if inspect.isclass(value) or inspect.isroutine(value) else ""


def _paragraph(value: Any) -> str:
    """The first paragraph of a docstring on one line, without the automatic ones of dataclasses."""
    text = " ".join((inspect.getdoc(value) or "").split("\n\n")[0].split())
    return "" if text.startswith(f"{getattr(value, '__name__', '')}(") else text


class _Code(str):
    """An annotation that is printed without quotes."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


def _signature(name: str, value: Any) -> str:
    """How a function or class is called: on one line, or with one parameter per line if that is long."""
    is_class = inspect.isclass(value)
    if not is_class and not inspect.isroutine(value):
        return f"{name} = {json.dumps(value)}" if isinstance(value, int | float | str) else ""
    if is_class and (issubclass(value, enum.Enum | BaseException) or getattr(value, "_is_protocol", False)):
        return f"class {name}"
    try:
        signature = inspect.signature(value)
    except (TypeError, ValueError):
        return ""
    parameters, returns = list(signature.parameters.values()), signature.return_annotation
    kinds = inspect.Signature(
        [one.replace(annotation=_code(one.annotation), default=_default(one.default)) for one in parameters]
    )
    start = f"class {name}" if is_class else f"async def {name}" if inspect.iscoroutinefunction(value) else f"def {name}"
    end = "" if is_class or returns is inspect.Signature.empty else f" -> {_code(returns)!r}"
    text = re.sub(r"<[^>]*>", "…", f"{start}{kinds}{end}").replace("headrace.", "")
    if len(text) <= 100 or not parameters:
        return text
    lines = [re.sub(r"<[^>]*>", "…", str(one)).replace("headrace.", "") for one in kinds.parameters.values()]
    first = next((place for place, one in enumerate(parameters) if one.kind is one.KEYWORD_ONLY), None)
    if first is not None and not any(one.kind is one.VAR_POSITIONAL for one in parameters):
        lines.insert(first, "*")
    return f"{start}(\n" + "".join(f"    {line},\n" for line in lines) + f"){end}".replace("headrace.", "")


def _default(value: Any) -> Any:
    """A default as it is printed. Only plain values: the text of any other object may depend on the machine, as os.environ does."""
    is_plain = value is inspect.Parameter.empty or value is None or isinstance(value, bool | int | float | str)
    return value if is_plain else _Code("…")


def _code(annotation: Any) -> Any:
    # msgspec evaluates the alias, which is long.
    if str(annotation).replace("ForwardRef('Payload')", "'Payload'") == str(Payload):
        return _Code("Payload")
    # A NamedTuple has the annotations of its fields as references.
    text = annotation.__forward_arg__ if isinstance(annotation, ForwardRef) else annotation
    if isinstance(text, str) and text.startswith("Annotated["):
        # Only the type: what is said of a definition's field is on a page of its own.
        text = ast.unparse(ast.parse(text, mode="eval").body.slice.elts[0])  # type: ignore[attr-defined]
    return _Code(text) if isinstance(text, str) else text


# Definitions


def definitions_page() -> Iterator[str]:
    yield f"""# Definitions

{NOTICE}

The fields of rules, correlators, relays and schedules. They are the same in [files](../definitions.md), in Python, in the columns of
the view `headrace.<kind>` and, with hyphens, in the options of `headrace <kind> create` and `alter`. `name` is the column named like the
kind."""
    for kind in (RULES, CORRELATORS, RELAYS, SCHEDULES):
        text = _paragraph(kind.definition_type)
        yield f"\n## {kind.list_name.capitalize()}\n\n{text}\n\n| field | type | default | |\n|---|---|---|---|"
        yield from map(_field_row, kind.fields)


def _field_row(field: Field) -> str:
    names = {str: "text", int: "whole number", float: "number", bool: "true or false", timedelta: "duration"}
    type_ = ", ".join(f"`{choice}`" for choice in field.choices) or names.get(field.base, "JSON")
    limits = [
        f"{word} {limit:,}".replace(",", " ")
        for word, limit in (("at least", field.minimum), ("at most", field.maximum))
        if limit
    ]
    default = (
        "required"
        if field.is_required
        else field.unset or "none"
        if field.default is None
        else f"`{field.to_text(field.default)}`"
    )
    text = field.help.rstrip(".") + ("; stays as it was created" if field.is_fixed else "")
    return f"| `{field.name}` | {', '.join([type_, *limits])} | {default} | {_cell(text)} |"


# Settings


def settings_page() -> Iterator[str]:
    yield f"# Settings\n\n{NOTICE}\n\n## Environment variables\n\n| variable | meaning | if not set |\n|---|---|---|"
    yield from map(_setting_row, ENVIRONMENT)
    yield """
## SQL settings

Set them with `set`, `alter role … set` or `alter database … set`, or in the `options` of a connection.

| setting | meaning | if not set |
|---|---|---|"""
    yield from map(_setting_row, SQL)
    yield """
## Options of a node

Options of `headrace node run`; `headrace.node.Node` takes the same ones in Python.

| option | |
|---|---|"""
    node = load_command("node")
    yield from (_option_row(one) for one in node.commands["run"].params if one.name not in COMMON)  # type: ignore[attr-defined]


def _setting_row(setting: Setting) -> str:
    return f"| `{setting.name}` | {setting.meaning} | {setting.default} |"


# Errors


def errors_page() -> Iterator[str]:
    yield f"""# Errors

{NOTICE}

Every error of headrace is a `headrace.HeadraceError`. SQL functions raise the same error by its SQLSTATE, and the command line
ends with its exit code. Catch a branch, such as `NotFound`, to catch all errors below it. The message of an error says what
happened and what to do."""
    for branch in [HeadraceError, *HeadraceError.__subclasses__()]:
        errors = [branch] if branch is HeadraceError else sorted(_tree(branch), key=lambda error: error.sqlstate)
        if branch.__module__.startswith("headrace."):
            yield f"\n## {branch.__name__}\n\n| SQLSTATE | exception | exit code | explanation |\n|---|---|---|---|"
            yield from (_error_row(error) for error in errors)


def _tree(error: type[HeadraceError]) -> list[type[HeadraceError]]:
    return [error, *(found for child in error.__subclasses__() for found in _tree(child))]


def _error_row(error: type[HeadraceError]) -> str:
    # An error without its own SQLSTATE is raised by Python only.
    sqlstate = f"`{error.sqlstate}`" if "sqlstate" in vars(error) else "–"
    return f"| {sqlstate} | `{error.__name__}` | {error.exit_code} | {_cell(_paragraph(error))} |"


# SQL


_object = re.compile(
    r"(?P<comment>(?:^--[^\n]*\n)*)^create (?:or replace )?(?P<kind>function|view) headrace\.(?P<name>\w+)(?P<rest>.*?)"
    r"(?=^create |^--[^\n]*\n(?:--[^\n]*\n)*create |\Z)",
    re.MULTILINE | re.DOTALL,
)
SQL_SECTIONS = {
    "log/functions/publish": "Publish", "log/functions/cloudevents": "Publish", "log/functions/capture": "Publish",
    "log/": "Topics and the log", "consume/": "Consumers", "db/": "Namespaces", "definitions/": "Definitions",
    "definitions/schemas/": "Schemas of event types", "rules/": "Rules", "correlators/": "Correlators", "actions/": "Actions and nodes",
    "node/": "Actions and nodes", "schedules/": "Schedules", "relays/": "Relays", "web/http/": "HTTP in", "web/console/": "Console",
    "log/archive/": "Archive", "log/functions/erasure": "Erasure", "log/functions/redaction": "Erasure", "spark/": "Spark",
    "observe/": "Observe", "core/": "Helpers", "db/functions/sessions": "Helpers",
}  # fmt: skip
"""Beginnings of the names of SQL files: the longest says in which section their functions are."""


def sql_page() -> Iterator[str]:
    yield f"""# SQL

{NOTICE}

Schema `headrace` holds what you may call and read from any language. Everything in schema `headrace_internal` is internal.
Parameters start with `p_`; call functions with named parameters, such as `headrace.publish(p_topic => 'orders', …)`.

## Contents
"""
    functions: dict[str, list[re.Match[str]]] = {section: [] for section in SQL_SECTIONS.values()}
    for file, match in _objects("functions"):
        functions[SQL_SECTIONS[max((start for start in SQL_SECTIONS if file.startswith(start)), key=len)]].append(match)
    functions = {section: found for section, found in functions.items() if found}
    views = [match for _, match in _objects("views")]
    yield from (f"- {section}: {_links(found, '')}" for section, found in functions.items())
    yield f"- Views: {_links(views, 'view-')}"
    for section, found in functions.items():
        yield f"\n## {section}"
        for match in found:
            yield f"\n### {match['name']}\n\n```sql\n{_function_signature(match)}\n```\n\n{_sql_comment(match)}"
    yield "\n## Views"
    yield from (f"\n### view {match['name']}\n\n{_sql_comment(match)}" for match in views)


def _objects(kind: Kind) -> list[tuple[str, re.Match[str]]]:
    """The public functions or views, ordered by name, with the names of their files."""
    objects = [(file, match) for file, text in sql_files(kind) for match in _object.finditer(text)]
    return sorted(objects, key=lambda pair: pair[1]["name"])


def _links(found: list[re.Match[str]], prefix: str) -> str:
    return ", ".join(f"[{match['name']}](#{prefix}{match['name']})" for match in found)


def _function_signature(match: re.Match[str]) -> str:
    return f"headrace.{match['name']}" + re.split(r"\n? ?(?:language |as \$)", match["rest"], maxsplit=1)[0].rstrip()


def _sql_comment(match: re.Match[str]) -> str:
    """The header of an object without what it calls; notes on locks and indexes become a paragraph of their own."""
    comment = re.sub(r"^-- Calls: [^.]*\.\n", "", match["comment"], flags=re.MULTILINE)
    text = " ".join(line.removeprefix("--").strip() for line in comment.splitlines())
    return re.sub(r"\s+((?:Locks?|Index(?:es)?)\b[^.]*:)", r"\n\n\1", text, count=1)


# Decisions


READ_FIRST = {
    "0041": "why everything goes through functions and views",
    "0089": "where the SQL is, and in which order it is applied",
    "0001": "how events wait for their position without slowing PostgreSQL down",
    "0002": "where positions come from",
    "0006": "how the log is stored, read and dropped",
    "0007": "what every consumer of the log builds on",
    "0011": "why there is a condition language of our own",
    "0018": "from which event on a changed rule or correlator holds",
    "0044": "how all rules of a topic are evaluated at once",
    "0026": "which engine steps a pattern, and what is stored for a key",
    "0022": "why an action is done once, although any node may fail",
    "0033": "how Spark takes a topic over without a second truth",
}
"""Twelve decisions on which the others build, and what each explains; in the order in which one reads them."""
ROOMS_OF_DECISIONS = (
    "lang", "db", "log", "consume", "definitions", "rules", "correlators", "actions", "schedules", "relays", "evaluate", "spark", "node",
    "observe", "web", "prove", "package",
)  # fmt: skip


class Decision(NamedTuple):
    """A page of docs/adr."""

    number: str
    link: str
    room: str
    status: str


def read_decision(path: Path) -> Decision:
    text = path.read_text(encoding="utf-8")
    number, _, title = text.partition("\n")[0].removeprefix("# ").partition(" ")
    room = re.search(r"^Room: (\w+)$", text, re.MULTILINE)
    status = re.search(r"^Status: ([^\n.;:(,]+)", text, re.MULTILINE)
    assert room is not None and room[1] in ROOMS_OF_DECISIONS, f"{path.name} needs a line Room: with one of {ROOMS_OF_DECISIONS}"
    assert status is not None, f"{path.name} has no line Status: …"
    return Decision(number.rstrip(":"), f"[{_cell(title)}]({path.name})", room[1], status[1].strip())


def decisions_page() -> Iterator[str]:
    decisions = [read_decision(path) for path in sorted((ROOT / "docs/adr").glob("[0-9]*.md"))]
    links = {decision.number: decision.link for decision in decisions}
    yield f"""# Decisions

{NOTICE}

One page each: context, decision, consequences, and what was rejected. A decision that another one has replaced stays, and its
status names the other one.

## Read these first

| number | decision | it explains |
|---|---|---|"""
    yield from (f"| {number} | {links[number]} | {reason} |" for number, reason in READ_FIRST.items())
    for room in ROOMS_OF_DECISIONS:
        yield f"\n## {room}\n\n| number | decision | status |\n|---|---|---|"
        yield from (f"| {one.number} | {one.link} | {one.status} |" for one in decisions if one.room == room)


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


if __name__ == "__main__":
    main()
