"""The file for waking nodes while the agent is dead."""

import json
import stat
from pathlib import Path

import pytest

from offpeak.errors import CannotWrite
from offpeak.machines.credentials import Credential
from offpeak.machines.inventory import Enrolment, Hardware, Inventory, InventoryNode, Pdu, SleepMethod
from offpeak.model.orders import NodeOrder
from offpeak.power.wake_list import make_wake_list, make_wake_pace, write_wake_list
from offpeak.settings.agent import AgentSettings

pytestmark = pytest.mark.quick

LOGIN = Credential("bmc", "admin", Path("/etc/offpeak/bmc.password"))
IPMI = Hardware("compute", driver="ipmi", credential=LOGIN, cipher_suite=3)
REDFISH = Hardware("new", driver="redfish", credential=LOGIN, verify=Path("/etc/ssl/site.pem"))
STANDBY = Hardware(
    "sleepy",
    driver="ipmitool",
    credential=LOGIN,
    sleep_methods=(SleepMethod(NodeOrder.STANDBY, ("wol", "bmc"), 60, 60),),
)
MAC = "aa:bb:cc:dd:ee:ff"


def ways(*machines: InventoryNode, credentials: Path | None = None) -> dict[str, object]:
    return dict(make_wake_list(Inventory(Path("/etc/offpeak/inventory.toml"), machines), credentials=credentials))


def test_the_way_to_each_node() -> None:
    wake_list = ways(
        InventoryNode("n1", IPMI, bmc="10.1.0.1", mac=MAC),
        InventoryNode("n2", REDFISH, bmc="10.1.0.2", enrolled=Enrolment("ABC", (), "2026-11-01")),
        InventoryNode("n3", Hardware("old"), mac=MAC, wol_via="10.1.255.255:4009"),
        InventoryNode("n4", STANDBY, bmc="10.1.0.4", mac=MAC),
        InventoryNode("n5", Hardware("old")),
    )
    login = {"user": "admin", "password_file": "/etc/offpeak/bmc.password"}
    ipmi = {"way": "ipmi", "port": 623, "privilege": "operator", **login}
    assert wake_list == {
        "n1": {**ipmi, "host": "10.1.0.1", "cipher_suite": 3},
        "n2": {
            "way": "redfish",
            "url": "https://10.1.0.2",
            "verify": "/etc/ssl/site.pem",
            "identity": "ABC",
            **login,
        },
        "n3": {"way": "wol", "mac": MAC, "via": "10.1.255.255:4009"},
        "n4": {**ipmi, "host": "10.1.0.4", "cipher_suite": 17, "mac": MAC, "via": "255.255.255.255"},
    }


def test_credentials_of_systemd_end_with_the_agent_so_the_file_beside_the_inventory_is_named() -> None:
    handed = Path("/run/credentials/offpeak-agent.service")
    hardware = Hardware("compute", driver="ipmi", credential=Credential("bmc", "admin", handed / "bmc.password"))
    wake_list = ways(InventoryNode("n1", hardware, bmc="10.1.0.1"), credentials=handed)
    way = wake_list["n1"]
    assert isinstance(way, dict)
    assert way["password_file"] == "/etc/offpeak/bmc.password"


def test_the_pace_is_that_of_the_doors_limits() -> None:
    server = Hardware("compute", node_class="server")
    machines = (
        InventoryNode("n1", server, rack="A"),
        InventoryNode("n2", Hardware("old"), rack="A"),
        InventoryNode("n3", server),
    )
    pdu = Pdu("pdu1", "10.1.0.9", "apc", LOGIN, outlets=(("1", "n3"),))
    inventory = Inventory(Path("/etc/offpeak/inventory.toml"), machines, pdus=(pdu,))
    usual = make_wake_pace(AgentSettings(), inventory)
    assert usual == {
        "at_once": 20,
        "every_s": 0.6,
        "groups": {"rack A": ["n1", "n2"], "PDU pdu1": ["n3"]},
        "group_every_s": 15.0,
        "rise_s": {},
    }
    slow = make_wake_pace(AgentSettings(wakes_per_min=1, wake_ramp_w=12_000.0, rack_nodes_per_min=1), inventory)
    assert (slow["at_once"], slow["every_s"], slow["group_every_s"]) == (1, 60.0, 60.0)
    assert set(slow["rise_s"]) == {"n1", "n3"}
    assert 0 < slow["rise_s"]["n1"] < 60


def test_wake_list_is_private_and_has_no_password(tmp_path: Path) -> None:
    secret = tmp_path / "bmc.password"
    secret.write_text("very secret\n")
    hardware = Hardware("compute", driver="ipmi", credential=Credential("bmc", "admin", secret))
    wake_list = make_wake_list(Inventory(tmp_path / "inventory.toml", (InventoryNode("n1", hardware, bmc="10.1.0.1"),)))
    for _ in range(2):
        write_wake_list(tmp_path, wake_list)
    file = tmp_path / "wake.json"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert json.loads(file.read_text()) == wake_list
    assert "very secret" not in file.read_text()


def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(CannotWrite, match=r"wake\.json"):
        write_wake_list(tmp_path / "gone", {})
