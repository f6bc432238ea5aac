"""Every driver can be had by its name, and who asks for another learns which there are."""

import subprocess
import sys

import pytest

from offpeak.errors import BadInventory
from offpeak.machines.credentials import Credential
from offpeak.machines.inventory import Hardware, InventoryNode
from offpeak.power.drivers.registry import DRIVERS, driver_of
from offpeak.power.drivers.transport import Transport

pytestmark = pytest.mark.quick

LOGIN = Credential("bmc", "admin")


@pytest.mark.parametrize(
    ("machine", "arguments"),
    [
        (InventoryNode("n1", Hardware("compute"), bmc="10.1.0.1"), "no driver switches it"),
        (InventoryNode("n1", Hardware("compute", driver="ipmi"), bmc="10.1.0.1"), "no login for its BMC"),
        (InventoryNode("n1", Hardware("compute", driver="ipmi", credential=LOGIN)), "has no address of a BMC"),
        (
            InventoryNode("n1", Hardware("compute", driver="ipmi", credential=LOGIN, privilege="root"), bmc="b"),
            "not a privilege level",
        ),
    ],
)
def test_missing_inventory_setting_is_reported(machine: InventoryNode, arguments: str) -> None:
    with pytest.raises(BadInventory, match=arguments) as caught:
        driver_of(machine, Transport())
    assert caught.value.hint


def test_a_slip_gets_the_nearest_name_as_a_hint() -> None:
    with pytest.raises(BadInventory, match=r"no driver 'impi', see \[hardware.compute\]") as caught:
        driver_of(InventoryNode("n1", Hardware("compute", driver="impi")), Transport())
    assert caught.value.hint == "did you mean ipmi?"


def test_the_names_are_those_of_the_documentation() -> None:
    assert {"ipmi", "ipmitool", "ipmipower"} <= set(DRIVERS)


def test_looking_up_names_imports_nothing_slow() -> None:
    names = "pyghmi", "pysnmp", "asyncssh"
    code = f"import sys, offpeak.power.drivers.registry; print([name for name in {names} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=300, check=True)
    assert done.stdout == "[]\n"
