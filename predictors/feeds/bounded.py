"""Asking a source for so long and no longer, whatever it or its library does."""

from queue import Empty, SimpleQueue
from threading import Thread

from predictors.feeds.condition import Condition, Trouble
from predictors.feeds.port import Answer, Source, Window


def fetch_within(source: Source, window: Window, limit_s: float) -> Answer:
    """Return the source's answer, or HANGING after `limit_s`; then it is left behind and ends by itself."""
    answers: SimpleQueue[Answer] = SimpleQueue()
    # A daemon, because nobody must wait for a hanging library when the program ends.
    Thread(target=_fetch, args=(source, window, answers), daemon=True, name=f"feed {source.name}").start()
    try:
        return answers.get(timeout=limit_s)
    except Empty:
        return Trouble(Condition.HANGING, source.name, f"nothing after {limit_s:g} s")


def _fetch(source: Source, window: Window, answers: SimpleQueue[Answer]) -> None:
    try:
        answers.put(source.fetch(window))
    except Exception as error:
        # Others' libraries raise anything; what they say may hold a key.
        answers.put(Trouble(Condition.GARBAGE, source.name, f"failed with {type(error).__name__}"))
