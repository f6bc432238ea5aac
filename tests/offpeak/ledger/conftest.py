"""Ledgers on both databases, and the folder of what their tests share."""

import secrets
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from offpeak.ledger.ledger import Ledger
from offpeak.settings.ledger import LedgerSettings

sys.path.append(str(Path(__file__).parent))


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """An empty database of each kind."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'ledger.sqlite'}"
    created: str = request.getfixturevalue("postgres").create(f"ledger_{secrets.token_hex(6)}")
    return created


@pytest.fixture
def opened() -> Iterator[Callable[..., Ledger]]:
    """Opens ledgers that are closed after the test."""
    with ExitStack() as ledgers:

        def open_(
            url: str, *, keep_readings_s: int = 7 * 86_400, bound_s: float | None = None, **options: object
        ) -> Ledger:
            settings = LedgerSettings(url=url, keep_readings_s=keep_readings_s)
            ledger = Ledger(settings, **options)  # type: ignore[arg-type]
            # A short patience is that with the lock; the test waits for the writer's thread as long as it takes.
            ledger._bound_s = bound_s or ledger._bound_s
            ledgers.callback(ledger.close)
            return ledger

        yield open_


@pytest.fixture
def ledger(url: str, opened: Callable[..., Ledger]) -> Ledger:
    made = opened(url)
    made.ready()
    return made
