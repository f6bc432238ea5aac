"""Power sensors of the kernel: microwatts, labels, averages, and sensors that show nothing."""

import asyncio
from pathlib import Path

import pytest
from node_tree import write_tree

from offpeak.errors import NotSupported
from offpeak.power.meters.kernel import HwmonMeter
from offpeak.power.meters.port import Reading

pytestmark = pytest.mark.quick

NOON = 1_795_219_200.0


def read(sysfs: Path, files: dict[str, str]) -> tuple[Reading, ...]:
    write_tree(sysfs / "class/hwmon", files)
    return asyncio.run(HwmonMeter("n001", sysfs=sysfs, now=lambda: NOON).read())


def test_a_boards_meter_is_read(tmp_path: Path) -> None:
    files = {"hwmon1/name": "power_meter\n", "hwmon1/power1_average": "344500000\n", "hwmon0/temp1_input": "30000\n"}
    expected = Reading("n001", "hwmon", "power_meter power1", 344.5, NOON, node="n001", resolution_w=1e-6)
    assert read(tmp_path, files) == (expected,)


def test_an_average_goes_before_the_last_value_and_a_label_before_a_number(tmp_path: Path) -> None:
    files = {
        "hwmon2/name": "amdgpu\n",
        "hwmon2/power1_average": "90000000\n",
        "hwmon2/power1_input": "120000000\n",
        "hwmon2/power1_label": "PPT\n",
        "hwmon2/power2_input": "7000000\n",
    }
    assert [(reading.part, reading.power_w) for reading in read(tmp_path, files)] == [
        ("amdgpu PPT", 90),
        ("amdgpu power2", 7),
    ]


def test_two_equal_sensors_are_distinguished(tmp_path: Path) -> None:
    files = {f"hwmon{chip}/{file}": text for chip in (3, 4) for file, text in PSU.items()}
    assert [reading.part for reading in read(tmp_path, files)] == ["hwmon3 pmbus pin", "hwmon4 pmbus pin"]


PSU = {"name": "pmbus\n", "power1_input": "200000000\n", "power1_label": "pin\n"}


@pytest.mark.parametrize("text", ["", "\n", "N/A\n", "-1\n", "1.5\n", "9" * 25])
def test_missing_value_is_not_zero(tmp_path: Path, text: str) -> None:
    (reading,) = read(tmp_path, {"hwmon1/name": "power_meter\n", "hwmon1/power1_average": text})
    assert (reading.power_w, reading.why) == (None, "power1_average cannot be read")


def test_zero_watts_is_a_reading(tmp_path: Path) -> None:
    (reading,) = read(tmp_path, {"hwmon1/power1_input": "0\n"})
    assert (reading.part, reading.power_w, reading.why) == ("hwmon1 power1", 0.0, "")


def test_a_machine_without_sensors_is_reported(tmp_path: Path) -> None:
    with pytest.raises(NotSupported, match="n001: has no power sensor"):
        read(tmp_path, {"hwmon0/temp1_input": "30000\n"})
