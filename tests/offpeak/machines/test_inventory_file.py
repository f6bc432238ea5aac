"""An inventory is read completely, and an error has one line with file, key and hint."""

from pathlib import Path

import pytest

from offpeak.errors import BadInventory
from offpeak.machines.inventory import Enrolment, Inventory, SleepMethod
from offpeak.machines.inventory_file import read_inventory
from offpeak.model.orders import NodeOrder

pytestmark = pytest.mark.quick

SITE = """\
[credentials.bmc]
user = "admin"
password_file = "bmc.password"

[credentials.nodes]
user = "root"
key_file = "/etc/offpeak/id_ed25519"
known_hosts = "known_hosts"

[credentials.pdu]
password_file = "pdu.community"

[hardware.compute]
driver = "ipmi"
credential = "bmc"
cipher_suite = 3
ssh = "nodes"
standby = { wake = ["bmc", "wol"], enter_timeout = "60s", wake_timeout = "2min", ceiling = "25W" }

[hardware.compute.soft_off]

[hardware.storage]

[[machines]]
nodes = "n[01-03]"
hardware = "compute"
bmc = "10.1.0.[1-3]"
mac = ["52:54:00:00:00:01", "52:54:00:00:00:02", "52:54:00:00:00:03"]
wol_via = "10.1.255.255"
rack = "A1"

[[machines]]
nodes = "nas"
hardware = "storage"

[pdus.left]
host = "pdu1"
family = "own.toml"
credential = "pdu"
outlets = { "1-2,5" = "n[01-03]", "AA1" = "nas" }

[enrolled]
n02 = { identity = "a1b2", capabilities = ["dcmi"], date = "2026-11-21" }
"""


def _read(folder: Path, text: str) -> Inventory:
    file = folder / "inventory.toml"
    file.write_text(text, encoding="utf-8")
    return read_inventory(file)


def test_everything_is_where_it_belongs(tmp_path: Path) -> None:
    site = _read(tmp_path, SITE)
    first, second, _, nas = site.machines
    assert (first.node, first.bmc, first.mac, first.ssh) == ("n01", "10.1.0.1", "52:54:00:00:00:01", "n01")
    assert (first.rack, first.wol_via, first.enrolled) == ("A1", "10.1.255.255", None)
    assert second.enrolled == Enrolment("a1b2", ("dcmi",), "2026-11-21")
    compute = first.hardware
    assert (compute.driver, compute.cipher_suite, compute.privilege) == ("ipmi", 3, "operator")
    assert compute.credential is not None
    assert compute.credential.password_file == tmp_path / "bmc.password"
    assert [method.order for method in compute.sleep_methods] == ["standby", "soft_off"]
    assert compute.sleep_method(NodeOrder.STANDBY) == SleepMethod(NodeOrder.STANDBY, ("bmc", "wol"), 60, 120, 25.0)
    assert compute.sleep_method(NodeOrder.HARD_OFF) is None
    older = SITE.replace("enter_timeout", "enter_patience").replace("wake_timeout", "wake_patience")
    assert _read(tmp_path, older).machines == site.machines
    assert (nas.bmc, nas.ssh, nas.hardware.driver) == (None, None, None)
    shallow = _read(tmp_path, SITE.replace('ceiling = "25W"', 'ceiling = "25W", mem_sleep = "shallow"')).machines[0]
    assert [method.mem_sleep for method in shallow.hardware.sleep_methods] == ["shallow", "deep"]
    assert [method.capability for method in shallow.hardware.sleep_methods] == ["standby:shallow", "soft_off"]
    (pdu,) = site.pdus
    assert pdu.outlets == (("1", "n01"), ("2", "n02"), ("5", "n03"), ("AA1", "nas"))
    assert pdu.family == str(tmp_path / "own.toml")
    assert [machine.node for machine in site.chosen(("nas", "n01"))] == ["nas", "n01"]


def test_torques_own_way_needs_no_login(tmp_path: Path) -> None:
    text = (
        '[hardware.t]\ndriver = "pbsnodes"\nsoft_off = {}\n\n[[machines]]\nnodes = "n1"\nhardware = "t"\nbmc = "n1"\n'
    )
    (machine,) = _read(tmp_path, text).machines
    assert (machine.bmc, machine.hardware.credential) == ("n1", None)


def test_systemd_passes_passwords(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CREDENTIALS_DIRECTORY", "/run/credentials/offpeak.service")
    credentials = {credential.name: credential for credential in _read(tmp_path, SITE).credentials}
    assert credentials["bmc"].password_file == Path("/run/credentials/offpeak.service/bmc.password")
    assert credentials["nodes"].key_file == Path("/etc/offpeak/id_ed25519")


def test_an_unknown_node_is_named(tmp_path: Path) -> None:
    with pytest.raises(BadInventory, match=r"inventory\.toml: has no node n05") as caught:
        _read(tmp_path, SITE).chosen(("n05",))
    assert "did you mean n0" in caught.value.hint


@pytest.mark.parametrize(
    ("line", "instead", "message", "hint"),
    [
        ("[hardware.compute]", "[hardware.compute", r"Expected ']'", "TOML"),
        ('user = "admin"', 'usr = "admin"', r"credentials\.bmc\.usr: is not a key", "did you mean user?"),
        ('user = "admin"', "user = 7", r"credentials\.bmc\.user: 7: input should be a valid string", ""),
        ('rack = "A1"', 'rak = "A1"', r"machines\[1\]\.rak: is not a key", "did you mean rack?"),
        ("cipher_suite = 3", "cipher_suite = 0", r"hardware\.compute\.cipher_suite: 0", ""),
        ('nodes = "nas"\n', "", r"machines\[2\]: nodes is missing", "add nodes"),
        ('hardware = "storage"', 'hardware = "storag"', r"there is no \[hardware\.storag\]", "storage?"),
        ('credential = "bmc"\n', "", r"hardware\.compute: has a driver but no credential", "credential"),
        ('credential = "bmc"', 'credential = "bcm"', r"there is no \[credentials\.bcm\]", "did you mean bmc?"),
        ('ceiling = "25W"', "ceiling = 25", r"hardware\.compute\.standby\.ceiling: 25 is not text", ""),
        ('ceiling = "25W"', 'ceiling = "25"', r"ceiling: '25' has no unit", "write it like 250W"),
        ('ceiling = "25W"', 'mem_sleep = "s3"', r"standby\.mem_sleep: 's3'", ""),
        ("[hardware.storage]", '[hardware.storage.soft_off]\nmem_sleep = "deep"', r"mem_sleep: is not a key", ""),
        ('wake = ["bmc", "wol"]', "wake = []", r"hardware\.compute\.standby\.wake", ""),
        ('bmc = "10.1.0.[1-3]"', 'bmc = "10.1.0.[1-2]"', r"\[1\]\.bmc: 2 for 3 nodes", "equally"),
        ('bmc = "10.1.0.[1-3]"', 'bmc = "10.1.0.[1-"', r"\[1\]\.bmc: '10\.1\.0\.\[1-' is not a node set", "node sets"),
        ('bmc = "10.1.0.[1-3]"', 'bmc = "10.1.0.[3,1-2]"', r"'10\.1\.0\.\[3,1-2\]' has no order", "upwards"),
        ('nodes = "nas"', 'nodes = "n02"', r"nodes: n02 is there twice", ""),
        ('nodes = "nas"', 'nodes = "nas"\nbmc = "10.1.0.2"', r"bmc: 10\.1\.0\.2 is there twice", ""),
        ('"AA1" = "nas"', '"AA1" = "nsa"', r"pdus\.left\.outlets: nsa is in no \[\[machines\]\]", "did you mean nas?"),
        ('"AA1" = "nas"', '"5" = "nas"', r"pdus\.left\.outlets: 5 is there twice", ""),
        ('family = "own.toml"', "port = 70000", r"pdus\.left\.port: 70000", ""),
    ],
)  # fmt: skip
def test_error_in_an_inventory_is_one_line(tmp_path: Path, line: str, instead: str, message: str, hint: str) -> None:
    assert SITE.count(line) == 1
    with pytest.raises(BadInventory, match=message) as caught:
        _read(tmp_path, SITE.replace(line, instead))
    assert str(caught.value).startswith(str(tmp_path / "inventory.toml"))
    assert "\n" not in str(caught.value)
    assert hint in caught.value.hint


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(BadInventory, match="there is no inventory") as caught:
        read_inventory(tmp_path / "inventory.toml")
    assert "offpeak virtual" in caught.value.hint
