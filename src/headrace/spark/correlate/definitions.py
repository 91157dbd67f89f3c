"""What `correlate` accepts as a correlator: the library's own, a spec, the name of a live one, a file, or the text of a pattern."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from headrace.core import Invalid
from headrace.correlators import Correlator, get_correlator, load_correlators
from headrace.db import Connection
from headrace.evaluate import CorrelatorSpec

AnyCorrelator = CorrelatorSpec | Correlator | str
"""A text is the name of a live correlator if there is a connection, a file if it ends in .yaml, .yml or .py, else a pattern."""
FILE_SUFFIXES = (".yaml", ".yml", ".py")


def correlator_specs(
    correlators: AnyCorrelator | Sequence[AnyCorrelator],
    *,
    key: str | None = None,
    conn: Connection | None = None,
    namespace: str | None = None,
) -> tuple[CorrelatorSpec, ...]:
    """The specs of one or many correlators; `key` is that of patterns given as text. Raises UnknownCorrelator, PatternError,
    InvalidDefinitionFile, and Invalid for two of one name."""
    values = [correlators] if isinstance(correlators, CorrelatorSpec | Correlator | str) else list(correlators)
    specs = [spec for value in values for spec in _specs(value, key, conn, namespace)]
    if not specs:
        raise Invalid("correlate needs at least one correlator")
    names = [(spec.name, spec.version) for spec in specs]
    if duplicates := {name for name in names if names.count(name) > 1}:
        labels = ", ".join(sorted(f"{name} (version {version})" for name, version in duplicates))
        raise Invalid(f"two correlators have the same name and version: {labels}; their outputs could not be told apart")
    return tuple(specs)


def _specs(value: AnyCorrelator, key: str | None, conn: Connection | None, namespace: str | None) -> Iterator[CorrelatorSpec]:
    if isinstance(value, CorrelatorSpec):
        yield value
    elif isinstance(value, Correlator):
        yield spec_of(value)
    elif Path(value).suffix in FILE_SUFFIXES:
        yield from map(spec_of, load_correlators(value))
    elif conn is not None:
        state = get_correlator(conn, value, namespace=namespace)
        yield spec_of(state.correlator, version=state.version)
    else:
        yield CorrelatorSpec(name="pattern", pattern=value, key=key)


def spec_of(correlator: Correlator, *, version: int = 1) -> CorrelatorSpec:
    """A correlator as Spark runs it, over all events of its topic. Keys are not forgotten: `forget_after` is for live states."""
    return CorrelatorSpec(
        name=correlator.name,
        pattern=correlator.pattern,
        key=correlator.key,
        version=version,
        topic=correlator.topic,
        evidence_max=correlator.evidence_max,
    )


def names_of(specs: Iterable[CorrelatorSpec]) -> str:
    """For messages."""
    return ", ".join(spec.name for spec in specs)
