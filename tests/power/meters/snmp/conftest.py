"""Recordings of real PDUs, where they are."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from needed_programs import need
from snmp_agents import snmpsim


@pytest.fixture(scope="session")
def real(shared: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Sequence[str], int]]:
    """Recordings of real PDUs."""
    need(["setpriv"], packages="util-linux")
    with snmpsim(shared / "data" / "snmprec", tmp_path_factory.mktemp("snmpsim")) as agents:
        yield agents
