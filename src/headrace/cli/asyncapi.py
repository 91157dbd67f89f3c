"""`headrace asyncapi`: a namespace as an AsyncAPI document."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated, Literal

from typer import Option, Typer

from headrace.cli.session import Session, command
from headrace.db import connect
from headrace.definitions.schemas import describe_namespace

group = Typer()


@command(group, "asyncapi")
def asyncapi(
    session: Session,
    format: Annotated[Literal["json", "yaml"], Option(help="Form of the document.")] = "json",
    output: Annotated[Path | None, Option(metavar="FILE", help="File to write.", show_default="standard output")] = None,
) -> None:
    """Print an AsyncAPI 3 document of the namespace: topics as channels, event types as messages, with their schemas.

    Example: headrace asyncapi --format yaml --output events.yaml
    """
    with connect(session.targets[0]) as conn:
        document = describe_namespace(conn, namespace=session.namespace)
    text = json.dumps(document, indent=2, ensure_ascii=False, default=float) + "\n"
    if format == "yaml":
        import yaml

        text = yaml.safe_dump(json.loads(text), sort_keys=False, allow_unicode=True)
    if output is not None:
        output.write_text(text, encoding="utf-8")
    elif session.json:
        session.print(json.loads(text))
    else:
        sys.stdout.write(text)
