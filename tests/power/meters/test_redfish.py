"""What chassis say that they draw, in the newer way, the older way, or not at all."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from redfish_peer import CHASSIS, SYSTEM, RedfishPeer, redfish_peer

from offpeak.errors import BadAnswer, DeviceError, NoAnswer, NotSupported
from offpeak.machines.credentials import Credential
from offpeak.machines.inventory import Hardware, InventoryNode
from offpeak.power.drivers.logins import Logins
from offpeak.power.meters.bmc import RedfishMeter
from offpeak.power.meters.port import Reading

METRICS, POWER = f"{CHASSIS}/EnvironmentMetrics", f"{CHASSIS}/Power"
NOON = 1_795_219_200.0


@pytest.fixture
def peer() -> Iterator[RedfishPeer]:
    with redfish_peer() as peer:
        yield peer


@pytest.fixture
def meter(peer: RedfishPeer, tmp_path: Path) -> RedfishMeter:
    file = tmp_path / "password"
    file.write_text("secret")
    file.chmod(0o600)
    hardware = Hardware("compute", "redfish", Credential("bmc", "admin", file))
    machine = InventoryNode("n001", hardware, bmc=peer.url)
    return RedfishMeter(machine, logins=Logins(), timeout_s=120.0, now=lambda: NOON)


def read(meter: RedfishMeter) -> tuple[Reading, ...]:
    async def once() -> tuple[Reading, ...]:
        try:
            return await meter.read()
        finally:
            await meter.close()

    return asyncio.run(once())


@pytest.mark.quick
def test_the_newer_way_tells_power_and_energy(meter: RedfishMeter) -> None:
    expected = Reading("n001", "redfish", "1U", power_w=374.5, at_unix_s=NOON, energy_j=3.6e7, node="n001")
    assert read(meter) == (expected,)


@pytest.mark.quick
@pytest.mark.parametrize("newer", [404, {}, {"PowerWatts": None}, {"PowerWatts": {"Reading": None}}])
def test_the_older_way_is_queried_where_the_newer_tells_nothing(
    peer: RedfishPeer, meter: RedfishMeter, newer: Any
) -> None:
    peer.resources[METRICS] = newer
    assert [(reading.power_w, reading.energy_j, reading.why) for reading in read(meter)] == [(344.0, None, "")]


@pytest.mark.quick
@pytest.mark.parametrize("none", [None, "344 W", True, -1, float("nan"), float("inf"), 10**400, {}, 65535])
def test_no_value_is_never_zero(peer: RedfishPeer, meter: RedfishMeter, none: object) -> None:
    peer.resources[METRICS] = {"PowerWatts": {"Reading": none}}
    peer.resources[POWER] = {"PowerControl": [{"PowerConsumedWatts": none}]}
    (reading,) = read(meter)
    assert reading.power_w is None
    assert reading.why.startswith("PowerControl: PowerConsumedWatts is ")
    assert len(reading.why) < 100


@pytest.mark.quick
@pytest.mark.parametrize("power", [404, {}, {"PowerControl": []}, {"PowerControl": {"0": 1}}])
def test_a_missing_part_says_why(peer: RedfishPeer, meter: RedfishMeter, power: Any) -> None:
    peer.resources[METRICS] = 404
    peer.resources[POWER] = power
    assert [(reading.power_w, reading.why) for reading in read(meter)] == [
        (None, "PowerControl has no entry of the whole node")
    ]


@pytest.mark.quick
def test_zero_watts_are_no_sensor(peer: RedfishPeer, meter: RedfishMeter) -> None:
    peer.resources[METRICS] = {"PowerWatts": {"Reading": 0}}
    assert [reading.power_w for reading in read(meter)] == [344.0]
    peer.resources[POWER] = {"PowerControl": [{"PowerConsumedWatts": 0}]}
    (reading,) = read(meter)
    assert reading.power_w is None
    assert "the BMC reports 0 W" in reading.why


def related(path: str) -> dict[str, Any]:
    return {"RelatedItem": [{"@odata.id": path}]}


CPU = related(f"{SYSTEM}/Processors/CPU0")


@pytest.mark.quick
@pytest.mark.parametrize(
    "controls",
    [
        [{"Name": "PSU zone"}, {"PowerConsumedWatts": 231}],
        [{"PowerConsumedWatts": 90} | CPU, {"PowerConsumedWatts": 231}],
        [{"PowerConsumedWatts": 90, "PhysicalContext": "CPU"}, {"PowerConsumedWatts": 231}],
        [{"PowerConsumedWatts": 924}, {"PowerConsumedWatts": 231} | related(SYSTEM)],
        [{"PowerConsumedWatts": 924}, {"PowerConsumedWatts": 231} | related(CHASSIS)],
        [{"PowerConsumedWatts": 90}, {"PowerConsumedWatts": 231}],
        ["strange", None, {"PowerConsumedWatts": 231}],
    ],
)
def test_the_entry_of_the_whole_node_counts(peer: RedfishPeer, meter: RedfishMeter, controls: list[Any]) -> None:
    peer.resources[METRICS] = 404
    peer.resources[POWER] = {"PowerControl": controls}
    assert [reading.power_w for reading in read(meter)] == [231.0]


@pytest.mark.quick
@pytest.mark.parametrize(
    "shared", [{"ChassisType": "Enclosure"}, {"Links": {"ComputerSystems": [{"@odata.id": "/a"}, {"@odata.id": "/b"}]}}]
)
def test_an_enclosure_is_not_added_to_its_node(peer: RedfishPeer, meter: RedfishMeter, shared: dict[str, Any]) -> None:
    enclosure = "/redfish/v1/Chassis/Enclosure"
    peer.resources[SYSTEM]["Links"]["Chassis"].append({"@odata.id": enclosure})
    peer.resources[enclosure] = {"Id": "Enclosure", "Power": {"@odata.id": f"{enclosure}/Power"}} | shared
    peer.resources[f"{enclosure}/Power"] = {"PowerControl": [{"PowerConsumedWatts": 924}]}
    assert [reading.power_w for reading in read(meter)] == [374.5]
    del peer.resources[CHASSIS]["EnvironmentMetrics"], peer.resources[CHASSIS]["Power"]
    with pytest.raises(NotSupported, match="measures only what it shares with other nodes"):
        read(meter)


@pytest.mark.quick
def test_only_chassis_of_the_system_count_and_those_that_measure(peer: RedfishPeer, meter: RedfishMeter) -> None:
    sled, bay = "/redfish/v1/Chassis/Sled", "/redfish/v1/Chassis/Bay"
    peer.resources[SYSTEM]["Links"]["Chassis"] += [{"@odata.id": sled}, {"@odata.id": bay}, "strange"]
    peer.resources[sled] = {"Id": "Sled", "Power": {"@odata.id": f"{sled}/Power"}}
    peer.resources[f"{sled}/Power"] = {"PowerControl": [{"PowerConsumedWatts": 90}]}
    peer.resources[bay] = {"Id": "Bay"}
    assert [(reading.part, reading.power_w) for reading in read(meter)] == [("1U", 374.5), ("Sled", 90.0)]


@pytest.mark.quick
def test_a_service_without_any_meter_is_reported(peer: RedfishPeer, meter: RedfishMeter) -> None:
    peer.resources[CHASSIS] = {"Id": "1U"}
    with pytest.raises(NotSupported, match="measures no power by Redfish"):
        read(meter)


@pytest.mark.parametrize(("answer", "kind"), [(None, NoAnswer), (500, BadAnswer), (b"<html>", BadAnswer)])
def test_a_service_that_fails_gives_no_reading(
    peer: RedfishPeer, meter: RedfishMeter, answer: Any, kind: type[DeviceError]
) -> None:
    peer.resources[METRICS] = answer
    with pytest.raises(kind):
        read(meter)


@pytest.mark.quick
def test_known_chassis_takes_one_request(peer: RedfishPeer, meter: RedfishMeter) -> None:
    async def twice() -> int:
        await meter.read()
        requested = len(peer.requested)
        await meter.read()
        await meter.close()
        return len(peer.requested) - requested

    assert asyncio.run(twice()) == 1
