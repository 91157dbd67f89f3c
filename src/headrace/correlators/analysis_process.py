"""Runs the analysis of a pattern without stopping the event loop.

A usual pattern takes a few milliseconds and is analysed at once, with a small budget of steps. What exceeds it is repeated in a
process of its own with the full budget: a thread would hold the interpreter's lock. The process ends with its one answer."""

from __future__ import annotations

import asyncio
import os
import pickle
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TypeAlias, TypeVar, cast

from headrace.core import HeadraceError, Invalid
from headrace.definitions import TooLong
from headrace.lang.ecl import Budget, StateLimitExceeded

T = TypeVar("T")
Question: TypeAlias = tuple[Callable[..., object], tuple[object, ...]]
"""A function and its arguments."""

AT_ONCE_STEPS_MAX = 20_000
AT_ONCE_CHARS_MAX = 4_000
"""A longer pattern is not even parsed in the event loop."""
PROCESS_S_MAX = 60.0
"""The budget ends first on any usual machine; this is for one that is overloaded."""


@dataclass(frozen=True)
class Answer:
    """What a process has answered: a result, or an error."""

    question: Question
    result: object = None
    error: Invalid | None = None


class KnownAnswers:
    """The answers that were found for a definition. Who must not wait for a process looks here, and otherwise raises TooLong."""

    def __init__(self) -> None:
        self._answers: list[Answer] = []

    def find(self, question: Question) -> Answer | None:
        return next((answer for answer in self._answers if answer.question == question), None)

    async def ask(self, question: Question) -> None:
        try:
            answer = Answer(question, result=await _run_in_process(*question))
        except Invalid as error:
            answer = Answer(question, error=error)
        self._answers.append(answer)


async def analyse(function: Callable[..., T], *arguments: object, chars: int = 0, known: KnownAnswers | None = None) -> T:
    """`function(*arguments, budget=…)`, at once or, if that takes too many steps, in another process with the default budget.

    Function, arguments and result must be picklable. `chars` is the length of the text. Raises Invalid when the process cannot
    answer in time; errors of the function come as Invalid, too. With `known` it starts no process, but raises TooLong."""
    question: Question = (function, arguments)
    if known and (answer := known.find(question)):
        if answer.error:
            raise answer.error
        return cast(T, answer.result)
    if chars <= AT_ONCE_CHARS_MAX:
        budget = Budget(AT_ONCE_STEPS_MAX)
        try:
            result = function(*arguments, budget=budget)
        except StateLimitExceeded:
            if not budget.is_exceeded:
                raise
        else:
            if not budget.is_exceeded:
                return result
    if known:
        raise TooLong(partial(known.ask, question))
    return await _run_in_process(function, arguments)


async def _run_in_process(function: Callable[..., T], arguments: tuple[object, ...]) -> T:
    # Do not use multiprocessing, which would import the application's main module once more, nor -m, which would import this module twice.
    program = f"from {__name__} import answer; answer()"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", program, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, env=environment
    )
    try:
        answer, _ = await asyncio.wait_for(process.communicate(pickle.dumps((function, arguments))), PROCESS_S_MAX)
    except TimeoutError:
        raise Invalid(
            f"analysing the pattern did not end within {PROCESS_S_MAX:.0f} s; split the pattern into several correlators"
        ) from None
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    if not answer:
        raise Invalid(
            f"analysing the pattern ended its process with exit code {process.returncode}; "
            "split the pattern into several correlators"
        )
    error, result = pickle.loads(answer)
    if error is not None:
        raise Invalid(error)
    return cast(T, result)


def answer() -> None:
    """The process: one question on standard input, one answer on standard output."""
    function, arguments = pickle.load(sys.stdin.buffer)
    result: tuple[str | None, object]
    try:
        result = (None, function(*arguments, budget=None))
    except HeadraceError as error:
        result = (str(error), None)
    sys.stdout.buffer.write(pickle.dumps(result))
