"""The tables and keys of a file of sites, and what may stand behind each."""

from datetime import date
from typing import Annotated

from pydantic import Field

from offpeak.machines.toml_tables import Duration, Name, Power, TomlTable, read_by
from offpeak.settings.kinds import BANDWIDTH, CARBON, LATENCY

AtLeastOne = Annotated[int, Field(ge=1)]
Number = Annotated[float, Field(strict=False, allow_inf_nan=False)]
Positive = Annotated[Number, Field(gt=0)]
NotNegative = Annotated[Number, Field(ge=0)]


class SiteTable(TomlTable):
    """[sites.NAME]: a cluster."""

    nodes: AtLeastOne | None = None
    cores_per_node: AtLeastOne = 1
    cores: AtLeastOne | None = None
    node_class: Name | None = None
    core_power: Power | None = None
    gflops_per_core: Positive
    pue: Number | None = None
    facility: Name | None = None
    outside: Number = 15.0
    time_zone: Name
    largest_job: AtLeastOne | None = None
    longest_job: Duration | None = None
    features: tuple[Name, ...] = Field((), strict=False)
    ranks: dict[str, Positive] = Field(default_factory=dict)
    price_zone: Name | None = None
    tariff: Name | None = None
    energy_mix: dict[str, Number] | None = None
    esc: Annotated[float, read_by(CARBON)] | None = None
    carbon_zone: Name | None = None
    max_per_cycle: AtLeastOne | None = None
    allocations: dict[str, NotNegative] | None = None
    allocations_since: date | None = None
    reach: Name | None = None
    submit: Name | None = None
    agent: Name | None = None
    key_file: Name | None = None
    known_hosts: Name | None = None
    secret_file: Name | None = None


class LinkTable(TomlTable):
    """[[links]]: the way that data takes between two sites."""

    between: tuple[Name, Name] = Field(strict=False)
    latency: Annotated[float, read_by(LATENCY)]
    bandwidth: Annotated[float, read_by(BANDWIDTH)]


class SitesShape(TomlTable):
    """The whole file."""

    sites: dict[str, SiteTable] = Field(min_length=1)
    links: tuple[LinkTable, ...] = Field((), strict=False)
