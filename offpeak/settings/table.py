"""Every setting of offpeak, once: its kind, unit, default, meaning, example and command line flag.

A field of a section is a row of the table SETTINGS, and the attribute that the program reads. A component is given
its section (`settings.scheduling`), never the whole. What is written with a unit ("75W", "24h") is a number inside,
its unit at the end of the attribute's name.
"""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from offpeak.settings import replay
from offpeak.settings.agent import AgentSettings, HardwareSettings, PageSettings, PbsSettings, SlurmSettings
from offpeak.settings.broker import BrokerSettings
from offpeak.settings.capacity import CapacitySettings
from offpeak.settings.kinds import Setting, SettingValue
from offpeak.settings.ledger import DataCentreSettings, LedgerSettings
from offpeak.settings.plan import FlexibilitySettings, PlanSettings


@dataclass(frozen=True)
class Settings:
    """All sections. `Settings()` holds the defaults."""

    log: replay.LogSettings = replay.LogSettings()
    prices: replay.PriceSettings = replay.PriceSettings()
    carbon: replay.CarbonSettings = replay.CarbonSettings()
    power: replay.PowerSettings = replay.PowerSettings()
    machine: replay.MachineSettings = replay.MachineSettings()
    scheduling: replay.SchedulingSettings = replay.SchedulingSettings()
    capacity: CapacitySettings = CapacitySettings()
    feeds: replay.FeedSettings = replay.FeedSettings()
    hardware: HardwareSettings = HardwareSettings()
    ledger: LedgerSettings = LedgerSettings()
    agent: AgentSettings = AgentSettings()
    slurm: SlurmSettings = SlurmSettings()
    broker: BrokerSettings = BrokerSettings()
    pbs: PbsSettings = PbsSettings()
    plan: PlanSettings = PlanSettings()
    flexibility: FlexibilitySettings = FlexibilitySettings()
    page: PageSettings = PageSettings()
    data_centre: DataCentreSettings = DataCentreSettings()

    @classmethod
    def of(cls, values: Mapping[str, SettingValue]) -> "Settings":
        """Build the sections from one value for every setting, by name, as `read_values` returns them."""
        parsed: dict[str, dict[str, Any]] = {section: {} for section in SECTIONS}
        for setting in SETTINGS:
            parsed[setting.section][setting.attribute] = values[setting.name].parsed
        return cls(**{section: type_(**parsed[section]) for section, type_ in SECTIONS.items()})


SECTIONS: dict[str, type] = {section.name: type(section.default) for section in fields(Settings)}


def _setting(section: str, attribute: str, columns: Mapping[str, Any]) -> Setting:
    key = attribute.removesuffix(columns["kind"].suffix)
    flag = columns["flag"] or f"--{key.replace('_', '-')}"
    return Setting(section, key, attribute, **{**columns, "flag": flag})


SETTINGS: tuple[Setting, ...] = tuple(
    _setting(section, field.name, field.metadata) for section, type_ in SECTIONS.items() for field in fields(type_)
)
BY_NAME: dict[str, Setting] = {setting.name: setting for setting in SETTINGS}
