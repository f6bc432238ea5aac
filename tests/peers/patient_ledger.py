"""Gives the ledgers of the tests a long patience, and fails a test whose rows did not reach the disk.

Beside other load a write may take many seconds. The limits of the product would then refuse an intent, or the rows of
a test would be missing when it reads them, far from the cause. A test of the limits gives its ledger a patience.
"""

from collections.abc import Iterator
from typing import Any
from weakref import WeakSet

import pytest

from offpeak.ledger.database import claiming_engine, writing_engine
from offpeak.ledger.ledger import Ledger
from offpeak.ledger.writer import LedgerStore, Writer

PATIENCE_S = 60.0
SETTLES_WITHIN_S = 300.0
MARK = "loses_rows(why): rows of this test do not reach the disk, which is what it tests"

_writers = WeakSet[Writer]()
_lost: list[int] = []


def pytest_configure(config: pytest.Config) -> None:
    """Make the defaults patient, and count the rows that a ledger loses."""
    config.addinivalue_line("markers", MARK)
    for function in (Ledger.__init__, LedgerStore.__init__, writing_engine, claiming_engine):
        assert function.__kwdefaults__["patience_s"] < PATIENCE_S
        function.__kwdefaults__["patience_s"] = PATIENCE_S
    begin, close = Writer.__init__, Writer.close

    def begin_and_note(self: Writer, *arguments: Any, **options: Any) -> None:
        begin(self, *arguments, **options)
        _writers.add(self)

    def close_and_count(self: Writer, bound_s: float) -> int:
        _writers.discard(self)
        lost = close(self, bound_s)
        _lost.append(lost)
        return lost

    Writer.__init__, Writer.close = begin_and_note, close_and_count  # type: ignore[method-assign]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item) -> Iterator[None]:
    """Fail the test if a ledger that was closed has lost rows, or one that is open cannot write its own."""
    yield
    lost = sum(_lost)
    _lost.clear()
    if item.get_closest_marker("loses_rows"):
        return
    assert not lost, f"{lost} rows did not reach the ledger at its end"
    for writer in list(_writers):
        assert writer.settle(SETTLES_WITHIN_S), f"rows wait for the ledger: {writer.problem()}"
