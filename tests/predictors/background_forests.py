"""Forests grown by another process at the lowest priority, while the predictor goes on answering by the one it has."""

import os
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_context
from typing import Protocol, Self

from predictors.trees.forest import Forest
from predictors.trees.grow import Growth, TrainingData, grow


class Growing(Protocol):
    """A predictor whose caller grows its forests."""

    @property
    def growth(self) -> Growth:
        """How they are grown."""
        ...

    @property
    def is_due(self) -> bool:
        """Whether it has learned enough for another forest."""
        ...

    def lessons(self) -> TrainingData:
        """Return a copy of what the next one is grown from."""
        ...

    def adopt(self, forest: Forest) -> None:
        """Answer by this forest from now on."""
        ...


class Background:
    """Grows one forest at a time for one predictor; a context manager, whose end waits for the process to leave."""

    def __init__(self, predictor: Growing) -> None:
        self._predictor = predictor
        self._pool = _one_process()
        self._coming: Future[Forest] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._pool.shutdown(cancel_futures=True)

    @property
    def is_busy(self) -> bool:
        """Whether a forest is being grown that the predictor has not adopted."""
        return self._coming is not None

    def tend(self) -> None:
        """Let the predictor adopt a forest that is ready, and begin another if one is due. It never waits."""
        if self._coming and self._coming.done():
            self._take(self._coming)
            self._coming = None
        if self._coming is None and self._predictor.is_due:
            self._coming = self._pool.submit(grow, self._predictor.lessons(), self._predictor.growth)

    def _take(self, coming: "Future[Forest]") -> None:
        try:
            self._predictor.adopt(coming.result())
        except BrokenProcessPool:
            # Killed, for lack of memory perhaps: the forest that there is goes on answering until the next attempt.
            self._pool = _one_process()


def _one_process() -> ProcessPoolExecutor:
    # A fresh process: one that is forked may inherit a lock of a thread that it does not have.
    return ProcessPoolExecutor(1, mp_context=get_context("spawn"), initializer=os.nice, initargs=(19,))
