"""The table of settings and the sections that are made from it."""

from dataclasses import FrozenInstanceError

import pytest

from offpeak.settings.file import read_values
from offpeak.settings.replay import PowerSettings, SchedulingSettings
from offpeak.settings.table import BY_NAME, SECTIONS, SETTINGS, Settings

pytestmark = pytest.mark.quick


def test_names_and_flags_are_unique() -> None:
    assert len({setting.name for setting in SETTINGS}) == len(SETTINGS)
    assert len({setting.flag for setting in SETTINGS}) == len(SETTINGS)
    assert {setting.section for setting in SETTINGS} == set(SECTIONS)


@pytest.mark.parametrize("name", BY_NAME)
def test_every_row_explains_itself(name: str) -> None:
    setting = BY_NAME[name]
    assert setting.doc.endswith(".")
    assert setting.flag.startswith("--")
    assert setting.attribute == setting.key + setting.kind.suffix
    setting.kind.read(setting.example)


def test_defaults_need_no_file() -> None:
    assert Settings.of(read_values(None)) == Settings()


def test_a_section_reads_as_numbers_with_units() -> None:
    settings = Settings()
    assert (settings.power.idle_w, settings.power.idle_node_w) == (None, 75.0)
    assert PowerSettings(idle_w=0.0).idle_node_w == 0.0
    assert settings.scheduling.max_postponement_s == 86400
    assert settings.scheduling.period_s is None
    assert settings.scheduling.policies == ("easy", "greedy", "knapsack")
    assert settings.prices.file is None


def test_a_value_reaches_its_section() -> None:
    values = read_values(None, options={"scheduling.period": "30s", "machine.nodes": 16})
    settings = Settings.of(values)
    assert (settings.scheduling.period_s, settings.machine.nodes) == (30, 16)


def test_a_section_is_frozen() -> None:
    with pytest.raises(FrozenInstanceError):
        SchedulingSettings().window = 5  # type: ignore[misc]
