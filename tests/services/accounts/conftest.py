"""The folder of what these tests share, and their ledgers."""

import secrets
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from offpeak.ledger.ledger import Ledger
from offpeak.settings.ledger import LedgerSettings

sys.path.append(str(Path(__file__).parent))


@pytest.fixture
def ledger(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Ledger]:
    """A ledger on SQLite, or on PostgreSQL: one test of each module, that with most queries, is run on both."""
    url = f"sqlite:///{tmp_path / 'ledger.sqlite'}"
    if getattr(request, "param", "sqlite") == "postgresql":
        url = request.getfixturevalue("postgres").create(f"accounts_{secrets.token_hex(6)}")
    made = Ledger(LedgerSettings(url=url))
    made.ready()
    yield made
    made.close()
