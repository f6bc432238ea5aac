"""Meters by name, and nothing of theirs imported before one is made."""

import subprocess
import sys
from pathlib import Path

import pytest
from pdu_reading import login

from offpeak.errors import BadInput
from offpeak.machines.inventory import Pdu
from offpeak.power.drivers.transport import Transport
from offpeak.power.meters.registry import pdu_meter


def test_a_pdu_has_a_meter(tmp_path: Path) -> None:
    wire = Transport()
    pdus = [Pdu(name, "127.0.0.1", "apc", login(tmp_path, "public")) for name in ("rack1", "rack2")]
    meters = [pdu_meter(pdu, wire) for pdu in pdus]
    assert [(meter.name, meter.way) for meter in meters] == [("rack1", "snmp"), ("rack2", "snmp")]


def test_an_unknown_family_has_none(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="not a family"):
        pdu_meter(Pdu("rack1", "127.0.0.1", "ap", login(tmp_path, "public")), Transport())


def test_snmp_is_not_imported_before(repository: Path) -> None:
    code = "import sys, offpeak.power.meters.registry; sys.exit('pysnmp' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], cwd=repository, check=True)
