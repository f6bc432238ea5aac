"""What is written into an inventory changes nothing else, and reads back as it was meant."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from offpeak.errors import BadInventory
from offpeak.machines.enrolment import (
    ImportedNode,
    add_machines,
    in_order,
    netbox_nodes,
    racksdb_nodes,
    write_enrolments,
)
from offpeak.machines.inventory import Enrolment
from offpeak.machines.inventory_file import read_inventory
from offpeak.machines.node_sets import expand_in_order

pytestmark = pytest.mark.quick

BY_HAND = """\
# Ours since 2019.
[hardware.compute]   # the blue ones

[[machines]]
nodes = "n[1-2]"     # n3 is at the vendor's
hardware = "compute"
"""
WHO = Enrolment("a1b2", ("dcmi", "soft_off"), "2026-11-21")


def test_comments_stay_and_a_line_is_replaced(tmp_path: Path) -> None:
    file = tmp_path / "inventory.toml"
    file.write_text(BY_HAND)
    write_enrolments(file, {"n1": WHO})
    write_enrolments(file, {"n2": WHO, "n1": Enrolment("c3d4", (), "2026-11-22")})
    text = file.read_text()
    assert text.startswith(BY_HAND)
    assert text.count("[enrolled]") == 1
    first, second = read_inventory(file).machines
    assert first.enrolled == Enrolment("c3d4", (), "2026-11-22")
    assert second.enrolled == WHO


def test_nodes_of_another_inventory_are_added(tmp_path: Path) -> None:
    file = tmp_path / "inventory.toml"
    file.write_text(BY_HAND)
    found = [ImportedNode(f"x{at}", "blade", f"10.0.0.{at}", "R1") for at in range(1, 12)]
    add_machines(file, [*found, ImportedNode("y1", "compute"), ImportedNode("y2", "blade", rack="R1")])
    assert set(BY_HAND.splitlines()) <= set(file.read_text().splitlines())
    site = read_inventory(file)
    addresses = {machine.node: (machine.bmc, machine.rack, machine.hardware.name) for machine in site.machines}
    assert addresses["x9"] == ("10.0.0.9", "R1", "blade")
    assert addresses["x11"] == ("10.0.0.11", "R1", "blade")
    assert addresses["y1"] == (None, None, "compute")
    assert addresses["y2"] == (None, "R1", "blade")
    assert len(addresses) == 15


def test_a_new_file_is_an_inventory(tmp_path: Path) -> None:
    file = tmp_path / "inventory.toml"
    add_machines(
        file, [ImportedNode("n2", "a", "10.0.0.2"), ImportedNode("n1", "a", "10.0.0.1"), ImportedNode("n10", "b")]
    )
    site = read_inventory(file)
    assert [(machine.node, machine.bmc) for machine in site.machines] == [
        ("n1", "10.0.0.1"),
        ("n2", "10.0.0.2"),
        ("n10", None),
    ]


@given(st.permutations(["n1", "n2", "n3", "m01", "10.0.0.7", "n10"]))
def test_names_are_written_in_their_order(names: list[str]) -> None:
    assert expand_in_order(in_order(names)) == tuple(names)


RACKS_DATABASE = b"""\
infrastructures:
  blue:
    description: a cluster
    layout:
    - rack: R1
      nodes:
      - {name: "n[01-03]", type: twin, slot: 1}
      - {name: fat1, type: quad, slot: 9, bmc: fat1-bmc}
    - rack: R2
      network:
      - {name: sw1, type: switch, slot: 1}
"""
RACKS_ANSWER = b"""\
- {name: n01, infrastructure: blue, rack: {name: R1}, type: {id: twin, model: T}, tags: [compute]}
- {name: n02, infrastructure: blue, rack: R1, type: twin}
"""


def test_racksdb() -> None:
    twins = tuple(ImportedNode(f"n0{at}", "twin", None, "R1") for at in (1, 2, 3))
    path = Path("x.yml")
    assert racksdb_nodes(RACKS_DATABASE, path) == (*twins, ImportedNode("fat1", "quad", "fat1-bmc", "R1"))
    assert racksdb_nodes(RACKS_ANSWER, path) == twins[:2]
    assert racksdb_nodes(b'[{"name": "n01", "type": "twin", "rack": "R1"}]', path) == twins[:1]


@pytest.mark.parametrize("text", [b"", b"a: [", b"just text", b"- {name: 7, type: x}", b"infrastructures: {}", b"a: b"])
def test_text_that_is_no_racksdb_export_is_refused(text: bytes) -> None:
    with pytest.raises(BadInventory, match=r"x\.yml: ") as caught:
        racksdb_nodes(text, Path("x.yml"))
    assert "racksdb nodes" in caught.value.hint


NETBOX_CSV = b"""\
\xef\xbb\xbfName,Status,Type,Rack,Out-of-band IP
n01,Active,PowerEdge R640,A1,10.1.0.1/16
n02,Planned,PowerEdge R640,A1,
n03,active,PowerEdge R640,A1,
"""
NETBOX_JSON = b"""\
{"count": 1, "results": [{"id": 5, "name": "n01", "status": {"value": "active", "label": "Active"},
 "device_type": {"id": 1, "model": "PowerEdge R640", "slug": "r640"}, "rack": {"id": 2, "name": "A1"},
 "oob_ip": {"id": 7, "address": "10.1.0.1/16"}}]}
"""


def test_netbox() -> None:
    path = Path("devices.csv")
    assert netbox_nodes(NETBOX_CSV, path) == (
        ImportedNode("n01", "PowerEdge R640", "10.1.0.1", "A1"),
        ImportedNode("n03", "PowerEdge R640", None, "A1"),
    )
    assert netbox_nodes(NETBOX_JSON, path) == (ImportedNode("n01", "r640", "10.1.0.1", "A1"),)


@pytest.mark.parametrize("text", [b"", b"{}", b"[", b"Name,Status\nn1,active\n", b"Name,Status,Type\nn1,offline,x\n"])
def test_text_that_is_no_netbox_export_is_refused(text: bytes) -> None:
    with pytest.raises(BadInventory, match=r"devices\.csv: ") as caught:
        netbox_nodes(text, Path("devices.csv"))
    assert "export" in caught.value.hint
