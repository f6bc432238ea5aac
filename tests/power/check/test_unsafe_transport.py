"""What `offpeak check` says of a BMC whose password others on the network could read."""

import pytest

from offpeak.machines.inventory import Hardware, InventoryNode
from offpeak.power.check.devices import check_transport
from offpeak.power.check.findings import CheckVerdict

pytestmark = pytest.mark.quick


@pytest.mark.parametrize(
    ("driver", "bmc", "suite", "reply"),
    [
        ("redfish", "http://10.0.0.1", 17, "is queried by http: its password travels unencrypted"),
        ("ipmi", "10.0.0.1", 3, "cipher_suite = 3, SHA-1"),
        ("ipmitool", "10.0.0.1", 1, "cipher_suite = 1, no encryption"),
        ("ipmipower", "10.0.0.1", 8, "cipher_suite = 8, weaker than SHA-256"),
    ],
)
def test_an_unsafe_way_is_reported(driver: str, bmc: str, suite: int, reply: str) -> None:
    (found,) = check_transport(InventoryNode("n1", Hardware("h", driver=driver, cipher_suite=suite), bmc=bmc))
    assert (found.subject, found.verdict, found.message) == ("n1", CheckVerdict.DOUBTFUL, reply)
    assert found.hint


@pytest.mark.parametrize(("driver", "bmc"), [("redfish", "https://10.0.0.1"), ("ipmi", "10.0.0.1"), ("redfish", None)])
def test_a_safe_way_is_not(driver: str, bmc: str | None) -> None:
    assert check_transport(InventoryNode("n1", Hardware("h", driver=driver), bmc=bmc)) == []
