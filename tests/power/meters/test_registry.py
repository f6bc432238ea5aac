"""Meters by name, and nothing of theirs imported before one is made."""

import subprocess
import sys
from pathlib import Path

import pytest
from pdu_reading import login

from offpeak.errors import BadInput
from offpeak.machines.inventory import Pdu
from power.drivers.logins import Logins
from power.meters.registry import Shared, meter_of


def test_a_pdu_has_a_meter(tmp_path: Path) -> None:
    shared = Shared(Logins())
    pdus = [Pdu(name, "127.0.0.1", "apc", login(tmp_path, "public")) for name in ("rack1", "rack2")]
    meters = [meter_of(pdu, shared) for pdu in pdus]
    assert [(each.name, each.way) for each in meters] == [("rack1", "snmp"), ("rack2", "snmp")]


def test_an_unknown_family_has_none(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="no family"):
        meter_of(Pdu("rack1", "127.0.0.1", "ap", login(tmp_path, "public")), Shared(Logins()))


def test_snmp_is_not_imported_before(repository: Path) -> None:
    code = "import sys, power.meters.registry; sys.exit('pysnmp' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], cwd=repository, check=True)
