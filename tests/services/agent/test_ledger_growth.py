"""The ledger stays small while nothing changes in the queue but the prices."""

from pathlib import Path

import pytest
from quiet_queue import write_quiet_cycles
from sqlalchemy import func, select

from offpeak.door.effect import Mode
from offpeak.ledger.database import open_ledger
from offpeak.ledger.prune import RETENTION_RULES

JOBS, CYCLES = 500, 40


@pytest.mark.parametrize("mode", [Mode.SHADOW, Mode.ADVISE])
def test_500_delayed_jobs_are_written_once(mode: Mode, tmp_path: Path) -> None:
    """In these modes no begin time is written, so that each cycle decides anew by the prices of that moment."""
    url = f"sqlite:///{tmp_path}/ledger.sqlite"
    write_quiet_cycles(url, JOBS, CYCLES, mode)
    with open_ledger(url) as connection:
        counts = {age.table_name: select(func.count()).select_from(age.at.table) for age in RETENTION_RULES}
        rows = {name: connection.execute(count).scalar_one() for name, count in counts.items()}
    assert rows["decisions"] == JOBS
    assert sum(rows.values()) < JOBS + 10
