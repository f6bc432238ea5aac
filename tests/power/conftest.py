"""Snapshots, the plain scheduler and random logs for the tests of what-ifs; recorded PDUs for those of meters."""

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from needed_programs import need
from snmp_agents import snmpsim

HERE = Path(__file__).parent
sys.path += [str(HERE), str(HERE.parent / "sim_backend")]


@pytest.fixture(scope="session")
def recorded(repository: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Sequence[str], int]]:
    """Our recordings, one for each family and each of its traps, each PDU by its file's name as community."""
    need(["setpriv"], packages="util-linux")
    with snmpsim(repository / "tests" / "peers" / "snmprec", tmp_path_factory.mktemp("snmpsim")) as agents:
        yield agents
