"""What Slurm has measured: recorded answers of every release, which measured nothing, and nodes that were measured."""

import asyncio
import re
from pathlib import Path

import pytest

from offpeak.errors import NotSupported
from offpeak.power.meters.slurm import SlurmMeter, parse_node_energy

pytestmark = pytest.mark.quick

NOON = 1_795_219_200.0
CONFIG = "AcctGatherEnergyType    = acct_gather_energy/none\n"
IPMI = "AcctGatherEnergyType    = acct_gather_energy/ipmi\n"
NODE = "NodeName=%s Arch=x86_64 CPUTot=4 State=%s ThreadsPerCore=1 CfgTRES=cpu=4 %s\n"


def only(state: str, figures: str, config: str = IPMI) -> tuple[float | None, float | None, str]:
    (reading,) = parse_node_energy(NODE % ("n001", state, figures), config, meter="alps", at_unix_s=NOON)
    assert (reading.meter, reading.way, reading.part, reading.node) == ("alps", "slurm", "n001", "n001")
    return reading.power_w, reading.energy_j, reading.why


def test_measured_nodes_have_power_and_energy() -> None:
    assert only("ALLOCATED", "CapWatts=n/a CurrentWatts=212 AveWatts=190") == (212.0, None, "")
    assert only("IDLE", "CurrentWatts=98 LowestJoules=1 ConsumedJoules=5400") == (98.0, 5400.0, "")


@pytest.mark.parametrize("figure", ["CurrentWatts=0 AveWatts=0", "CurrentWatts=n/s AveWatts=n/s", ""])
def test_no_figure_is_not_zero(figure: str) -> None:
    assert only("IDLE", figure) == (None, None, "Slurm has no figure")


@pytest.mark.parametrize(
    "state", ["DOWN", "IDLE*", "IDLE+POWERED_DOWN", "MIXED+NOT_RESPONDING+POWERING_UP", "DOWN*+DRAIN"]
)
def test_the_figure_of_a_silent_node_is_old(state: str) -> None:
    assert only(state, "CurrentWatts=212") == (None, None, f"the node does not answer Slurm: {state}")


@pytest.mark.parametrize("kind", ["(null)", "acct_gather_energy/none"])
def test_without_a_plugin_nothing_is_measured(kind: str) -> None:
    power_w, energy_j, why = only("IDLE", "CurrentWatts=0", f"AcctGatherEnergyType = {kind}\n")
    assert (power_w, energy_j) == (None, None)
    assert why == "Slurm measures nothing: AcctGatherEnergyType is not set in slurm.conf"


def test_recorded_answers_of_every_release_have_no_value(shared: Path) -> None:
    recorded = sorted((shared / "data" / "captures" / "slurm").glob("*/scontrol_show_node*.txt"))
    assert len({file.parent for file in recorded}) >= 4
    for file in recorded:
        nodes = file.read_text().replace("\n   ", " ")
        readings = parse_node_energy(nodes, CONFIG, meter="alps", at_unix_s=NOON)
        assert {reading.node for reading in readings} == set(re.findall(r"NodeName=(\S+)", nodes))
        assert {reading.power_w for reading in readings} == {None}
        measured = parse_node_energy(nodes.replace("Watts=0", "Watts=180"), IPMI, meter="alps", at_unix_s=NOON)
        assert all((reading.power_w == 180.0) != bool(reading.why) for reading in measured)


def test_recorded_configurations_measure_nothing(shared: Path) -> None:
    recorded = sorted((shared / "data" / "captures" / "slurm").glob("*/scontrol_show_config.txt"))
    assert len(recorded) >= 3
    for file in recorded:
        (reading,) = parse_node_energy(
            NODE % ("n001", "IDLE", "CurrentWatts=5"), file.read_text(), meter="alps", at_unix_s=NOON
        )
        assert reading.why.startswith("Slurm measures nothing")


def test_a_machine_without_slurm_is_reported(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(NotSupported, match="alps: scontrol: not found on PATH"):
        asyncio.run(SlurmMeter("alps").read())
