"""A BMC is paired with a node: by its host name, its serial number or its UUID, in any order of the bytes."""

from pathlib import Path
from uuid import UUID

import pytest

from offpeak.errors import BadInventory, WrongDevice
from offpeak.machines.inventory import Hardware, InventoryNode
from offpeak.power.check.pairing import BmcClaims, NodeFirmware, pair_lines, prove_pair, read_firmware

UUIDS = [f"0f1e2d3c-4b5a-6978-8796-a5b4c3d2e1f{number}" for number in range(3)]
NODE = InventoryNode("n001", Hardware("compute", "ipmi"), bmc="10.1.0.1")
NODES = ("n001", "g001", "n002")
FIRMWARE = {
    "n001": NodeFirmware(UUIDS[0], "CZ1001"),
    "g001": NodeFirmware(UUIDS[1], "CZ1002"),
    "n002": NodeFirmware(UUIDS[2], "CZ1003"),
}


@pytest.mark.parametrize(
    ("claims", "proof"),
    [
        (BmcClaims("n001"), "host name n001"),
        (BmcClaims("N001.cluster.example"), "host name N001.cluster.example"),
        (BmcClaims(uuid=UUIDS[0].upper()), f"UUID {UUIDS[0].upper()}"),
        (BmcClaims(uuid=str(UUID(bytes=UUID(UUIDS[0]).bytes_le))), f"UUID {UUID(bytes=UUID(UUIDS[0]).bytes_le)}"),
        (BmcClaims(serial="CZ1001"), "serial number CZ1001"),
        (BmcClaims("localhost", "0", "00000000-0000-0000-0000-000000000000"), ""),
        (BmcClaims(), ""),
    ],
)
def test_what_a_bmc_says_proves_its_node(claims: BmcClaims, proof: str) -> None:
    assert prove_pair(NODE, claims, NODES, FIRMWARE) == proof


@pytest.mark.parametrize(
    ("claims", "by"),
    [
        (BmcClaims("g001.example"), "host name g001.example"),
        (BmcClaims(uuid=UUIDS[1]), f"UUID {UUIDS[1]}"),
        (BmcClaims("n001", serial="CZ1002"), "serial number CZ1002"),
    ],
)
def test_the_bmc_of_another_node_is_named(claims: BmcClaims, by: str) -> None:
    with pytest.raises(WrongDevice, match=rf"n001: 10\.1\.0\.1 is the BMC of g001 by its {by}"):
        prove_pair(NODE, claims, NODES, FIRMWARE)


def test_a_serial_number_of_several_nodes_proves_nothing() -> None:
    same = {node: NodeFirmware(uuid, "Default") for node, uuid in zip(NODES, UUIDS, strict=True)}
    assert prove_pair(NODE, BmcClaims(serial="Default"), NODES, same) == ""


def test_a_file_of_what_nodes_read_of_themselves(tmp_path: Path) -> None:
    file = tmp_path / "dmi.txt"
    file.write_text(f"n001 {UUIDS[0]} CZ1001\n\n  g001 {UUIDS[1]}\n")
    assert read_firmware(file) == {"n001": FIRMWARE["n001"], "g001": NodeFirmware(UUIDS[1])}
    for line, message in (("n001 CZ1001", "n001 has no UUID, but 'CZ1001'"), (f"g001 {UUIDS[2]}", "g001 stands twice")):
        file.write_text(f"g001 {UUIDS[1]}\n{line}\n")
        with pytest.raises(BadInventory, match=rf"dmi\.txt:2: {message}"):
            read_firmware(file)


def test_pairs_are_shown_one_by_one_where_their_numbers_do_not_rise_together() -> None:
    bmcs = {"g001": "127.0.10.1", "n009": "127.0.10.2", "n010": "127.0.10.3", "n012": "127.0.10.4"}
    assert pair_lines(bmcs) == [
        "g001: 127.0.10.1",
        "n009 to n010: 127.0.10.2 to 127.0.10.3, one by one",
        "n012: 127.0.10.4",
    ]
    assert pair_lines({"login": "bmc-login"}) == ["login: bmc-login"]
