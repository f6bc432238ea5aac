"""What an inventory may say of an IPMI login is what the drivers understand."""

from typing import get_args

from offpeak.machines.inventory_file import HardwareTable
from offpeak.power.drivers.ipmi.bmc import PRIVILEGES


def test_the_drivers_know_every_privilege_that_an_inventory_may_name() -> None:
    assert set(get_args(HardwareTable.model_fields["privilege"].annotation)) == set(PRIVILEGES)
