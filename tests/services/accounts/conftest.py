"""The folder of what these tests share, and ledgers on both databases."""

import secrets
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from offpeak.ledger.ledger import Ledger
from offpeak.settings.ledger import LedgerSettings

sys.path.append(str(Path(__file__).parent))


@pytest.fixture(params=["sqlite", "postgresql"])
def ledger(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Ledger]:
    url = f"sqlite:///{tmp_path / 'ledger.sqlite'}"
    if request.param == "postgresql":
        url = request.getfixturevalue("postgres").create(f"accounts_{secrets.token_hex(6)}")
    made = Ledger(LedgerSettings(url=url))
    made.ready()
    yield made
    made.close()
