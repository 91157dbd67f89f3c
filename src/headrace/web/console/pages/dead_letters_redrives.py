"""Redrives of whole groups: in the background, in small transactions, with progress.

A group may have many thousands of dead letters. One transaction for all would hold locks for long and show nothing until its end.
Each step is a change of its own with its own audit event; a console that is stopped leaves the rest as dead letters."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from threading import Lock, Thread
from weakref import WeakKeyDictionary

from headrace.core import HeadraceError
from headrace.web.console.view import Site

STEP = 200
"""Dead letters of one transaction."""
KEPT_MAX = 100


@dataclass(frozen=True)
class Redrive:
    """A redrive of a group: how far it is."""

    total: int
    done: int
    is_running: bool = True
    error: str | None = None


_redrives: WeakKeyDictionary[Site, dict[tuple[object, ...], Redrive]] = WeakKeyDictionary()
_lock = Lock()


def redrive_of(site: Site, key: tuple[object, ...]) -> Redrive | None:
    """The last redrive of a group since this console started."""
    with _lock:
        return _redrives.get(site, {}).get(key)


def start_redrive(site: Site, key: tuple[object, ...], total: int, step: Callable[[], int]) -> bool:
    """Calls `step`, which returns how many it redrove, until it returns 0. False if a redrive of this group is running."""
    with _lock:
        known = _redrives.setdefault(site, {})
        if key in known and known[key].is_running:
            return False
        if len(known) >= KEPT_MAX:
            for old in [name for name, redrive in known.items() if not redrive.is_running]:
                del known[old]
        known[key] = Redrive(total, 0)
    Thread(target=_run, args=(site, key, step), name="headrace-redrive", daemon=True).start()
    return True


def _run(site: Site, key: tuple[object, ...], step: Callable[[], int]) -> None:
    error = None
    try:
        while count := step():
            _update(site, key, count)
    except HeadraceError as failure:
        error = str(failure)
    finally:
        with _lock:
            _redrives[site][key] = replace(_redrives[site][key], is_running=False, error=error)


def _update(site: Site, key: tuple[object, ...], count: int) -> None:
    with _lock:
        redrive = _redrives[site][key]
        done = redrive.done + count
        _redrives[site][key] = replace(redrive, done=done, total=max(done, redrive.total))


def percent(redrive: Redrive | None) -> int:
    """How much is done, in percent."""
    return 0 if redrive is None else 100 if not redrive.total else redrive.done * 100 // redrive.total
