"""Reads the sites of a federation: the TOML file that describes each cluster and the links between them.

The shape defines the tables, the keys and their values; the readers make a site of its table and report keys that
contradict each other. While the broker runs, a change of the file takes effect at the next cycle; after a
mistake in it the last correct state stays.
"""

from collections.abc import Callable
from dataclasses import replace
from datetime import date, datetime, time
from importlib.resources import files
from pathlib import Path
from typing import Annotated, TypeVar

import numpy as np
from pydantic import Field

from offpeak.errors import BadInput, BadSites
from offpeak.files import is_there, read_bytes
from offpeak.machines.credentials import secret_path
from offpeak.model.description import Description, Duration, Name, Power, TableModel, read_by
from offpeak.model.facility import Facility, facility_named
from offpeak.model.node_class import NodeClass
from offpeak.model.node_class_file import bundled_node_class, bundled_node_classes, read_node_class
from offpeak.model.zones import parse_zone
from offpeak.plugin.federation import sites as federation
from offpeak.predictors.feeds.markets import MARKETS, find_market
from offpeak.prices.tariff import Tariff, parse_tariff
from offpeak.settings.kinds import BANDWIDTH, CARBON, LATENCY
from offpeak.text import did_you_mean

AtLeastOne = Annotated[int, Field(ge=1)]
Number = Annotated[float, Field(strict=False, allow_inf_nan=False)]
Positive = Annotated[Number, Field(gt=0)]
NotNegative = Annotated[Number, Field(ge=0)]

SUBMIT_PROGRAMS = ("sbatch", "qsub")
SSH_KEYS = ("key_file", "known_hosts")
REACH_KEYS = ("submit", "agent", *SSH_KEYS, "secret_file")

Written = TypeVar("Written")
Value = TypeVar("Value")

EXAMPLE = files("offpeak.plugin.federation") / "sites.example.toml"

FileVersion = tuple[int, int, int]


class SiteTable(TableModel):
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
    esc: Annotated[float, read_by(CARBON.read)] | None = None
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


class LinkTable(TableModel):
    """[[links]]: the way that data takes between two sites."""

    between: tuple[Name, Name] = Field(strict=False)
    latency: Annotated[float, read_by(LATENCY.read)]
    bandwidth: Annotated[float, read_by(BANDWIDTH.read)]


class SitesShape(Description):
    """The whole file."""

    noun = "a file of sites"
    page = "docs/reference/sites.md explains every key"
    error = BadSites

    sites: dict[str, SiteTable] = Field(min_length=1)
    links: tuple[LinkTable, ...] = Field((), strict=False)


class BadKey(BadInput):
    """`key` of the table cannot be used."""

    def __init__(self, key: str, message: str, *, hint: str) -> None:
        super().__init__(message, hint=hint)
        self.key = key


def read_reach(table: SiteTable, *, beside: Path) -> federation.Reach | None:
    """Return how the site is reached, None if its table does not say. Raises BadKey.

    Files are relative to `beside`, the folder of the sites file, or to systemd's folder of credentials.
    """
    given = [key for key in REACH_KEYS if getattr(table, key) is not None]
    if table.reach is None:
        if given:
            raise BadKey(given[0], "goes with reach", hint='add reach, such as reach = "local"')
        return None
    try:
        reach = federation.parse_reach(table.reach)
    except BadInput as problem:
        raise BadKey("reach", str(problem), hint=problem.hint) from None
    if table.submit is not None and table.submit not in SUBMIT_PROGRAMS:
        raise BadKey("submit", f"{table.submit!r} submits nothing", hint=did_you_mean(table.submit, SUBMIT_PROGRAMS))
    if table.submit == "qsub" and reach.way == federation.SLURM:
        raise BadKey("submit", "qsub goes to no cluster of Slurm", hint='write submit = "sbatch" or another reach')
    for key in SSH_KEYS:
        if reach.way == federation.SSH and key not in given:
            # Without them ssh would accept any host, or offer other keys of the user.
            raise BadKey(key, "is missing", hint=f"ssh needs key_file and known_hosts: add {key}")
        if reach.way != federation.SSH and key in given:
            raise BadKey(key, "goes with ssh", hint=f'leave {key}, or write reach = "ssh USER@HOST"')
    by_http = (table.agent or "").startswith(("http://", "https://"))
    if reach.way == federation.SLURM and table.agent is None:
        raise BadKey("agent", "is missing", hint="name its agent's socket, or the address of its `offpeak broker`")
    if reach.way == federation.SSH and table.agent is not None and not by_http:
        raise BadKey("agent", "a socket is not reached by ssh", hint="leave it: `offpeak snapshot` is run there")
    if by_http != (table.secret_file is not None):
        raise BadKey("secret_file", "goes with an agent that is asked over HTTP", hint="both, or none of the two")
    return replace(
        reach,
        submit=table.submit or SUBMIT_PROGRAMS[0],
        agent=table.agent or "",
        key_file=_beside_file(table.key_file, beside),
        known_hosts=_beside_file(table.known_hosts, beside),
        secret_file=_beside_file(table.secret_file, beside),
    )


def _beside_file(written: str | None, beside: Path) -> Path | None:
    return None if written is None else secret_path(Path(written), beside=beside)


class SiteReader:
    """One table of the file at `path`."""

    def __init__(self, path: Path, name: str, table: SiteTable) -> None:
        self._path, self._name, self._table = path, name, table

    def site(self) -> federation.Site:
        """Return the site. Raises BadSites with the key and a hint for what is wrong."""
        table, node_class = self._table, self._node_class()
        self._check()
        units = table.nodes or table.cores or 0
        unit_w = node_class.running_w(1.0) if node_class else (table.core_power or 0.0) * table.cores_per_node
        room = self._room(units * unit_w, node_class.idle_w if node_class else 0.0)
        return federation.Site(
            name=self._name,
            units=units,
            unit_w=unit_w,
            cores_per_unit=table.cores_per_node,
            core_gflops=table.gflops_per_core,
            pue=_full_pue(room, units * unit_w) if room else table.pue or 1.0,
            room=room,
            zone=self._read("time_zone", table.time_zone, parse_zone),
            node_class=node_class,
            largest_job_cores=table.largest_job,
            longest_job_s=table.longest_job,
            features=frozenset(table.features),
            ranks=table.ranks,
            price_zone=table.price_zone,
            tariff=self._tariff(),
            esc_g_per_kwh=self._esc_g_per_kwh(),
            carbon_zone=table.carbon_zone,
            max_per_cycle=table.max_per_cycle,
            allocations=table.allocations,
            allocations_since_s=self._allocations_since_s(),
            reach=self._reach(),
        )

    def _check(self) -> None:
        table = self._table
        if self._one_of("nodes", "cores") == "cores" and table.cores_per_node != 1:
            raise self._wrong("cores_per_node", "goes with nodes, but cores are given", hint="give nodes instead")
        if self._one_of("pue", "facility") == "pue" and (table.pue or 0.0) < 1:
            hint = "it is the facility's power over that of the computers, so 1 at least"
            raise self._wrong("pue", f"{table.pue:g} is below 1", hint=hint)
        cores = (table.nodes or table.cores or 0) * table.cores_per_node
        if (table.largest_job or 0) > cores:
            raise self._wrong("largest_job", f"{table.largest_job:,} cores, but there are {cores:,}", hint="give fewer")
        if self._one_of("price_zone", "tariff") == "price_zone":
            self._read("price_zone", table.price_zone, _known_market)
        if self._one_of("energy_mix", "esc", "carbon_zone") == "carbon_zone":
            self._read("carbon_zone", table.carbon_zone, _known_carbon_zone)

    def _room(self, full_power_w: float, idle_w: float) -> federation.SiteRoom | None:
        if self._table.facility is None:
            return None

        def named(text: str) -> Facility:
            beside = self._path.parent / text
            return facility_named(str(beside) if text.endswith(".csv") else text, full_power_w=full_power_w)

        return federation.SiteRoom(self._read("facility", self._table.facility, named), self._table.outside, idle_w)

    def _node_class(self) -> NodeClass | None:
        if self._one_of("node_class", "core_power") == "core_power":
            return None
        if self._table.nodes is None:
            raise self._wrong("node_class", "goes with nodes, but cores are given", hint="give core_power instead")
        return self._read("node_class", self._table.node_class, self._class_named)

    def _class_named(self, name: str) -> NodeClass:
        if name in bundled_node_classes():
            return bundled_node_class(name)
        if not name.endswith(".toml"):
            hint = f"{did_you_mean(name, bundled_node_classes())}; or name a file, .toml, beside this one"
            raise BadInput(f"{name!r} is not a node class", hint=hint)
        return read_node_class(self._path.parent / name)

    def _tariff(self) -> Tariff | None:
        if self._table.tariff is None:
            return None
        zone = parse_zone(self._table.time_zone)
        return self._read("tariff", self._table.tariff, lambda text: parse_tariff(text, zone))

    def _allocations_since_s(self) -> int | None:
        table = self._table
        if table.allocations_since is None:
            return None
        if table.allocations is None:
            raise self._wrong("allocations_since", "goes with allocations", hint="give both, or none of the two")
        return int(datetime.combine(table.allocations_since, time.min, parse_zone(table.time_zone)).timestamp())

    def _reach(self) -> federation.Reach | None:
        try:
            return read_reach(self._table, beside=self._path.parent)
        except BadKey as problem:
            raise self._wrong(problem.key, str(problem), hint=problem.hint) from None

    def _esc_g_per_kwh(self) -> float | None:
        mix = self._table.energy_mix
        return self._table.esc if mix is None else self._read("energy_mix", mix, federation.esc_g_per_kwh)

    def _one_of(self, *keys: str) -> str:
        given = [key for key in keys if getattr(self._table, key) is not None]
        if not given:
            raise self._wrong("", f"has none of {', '.join(keys)}", hint="give one of them")
        if len(given) > 1:
            raise self._wrong(given[1], f"stands beside {given[0]}", hint="leave one of the two")
        return given[0]

    def _read(self, key: str, written: Written | None, read: Callable[[Written], Value]) -> Value:
        assert written is not None
        try:
            return read(written)
        except BadInput as problem:
            raise self._wrong(key, str(problem), hint=problem.hint) from None

    def _wrong(self, key: str, what: str, *, hint: str) -> BadSites:
        place = f"sites.{self._name}" + (f".{key}" if key else "")
        return BadSites(f"{self._path}: {place}: {what}", hint=hint)


def _full_pue(room: federation.SiteRoom, full_power_w: float) -> float:
    return float(room.facility.pue_at(np.array(full_power_w), np.array(room.outside_c)))


def _known_market(zone: str) -> str:
    try:
        return find_market(zone).zone
    except BadInput as problem:
        raise BadInput(f"{zone!r} is not a price zone", hint=problem.hint) from None


def _known_carbon_zone(zone: str) -> str:
    known = {market.maps for market in MARKETS}
    if zone not in known:
        raise BadInput(f"{zone!r} is not a zone of carbon intensity", hint=did_you_mean(zone, known))
    return zone


def read_sites(path: Path) -> federation.Grid:
    """Return the sites of the file. Raises BadSites with file, table, key and hint for what is wrong in it."""
    if not is_there(path):
        raise BadSites(f"{path}: there is no file of sites", hint="docs/reference/sites.md shows how one is written")
    return parse_sites(read_bytes(path, BadSites), path)


def example_sites() -> federation.Grid:
    """Return the sites of the example that comes with offpeak."""
    return parse_sites(EXAMPLE.read_bytes(), Path(EXAMPLE.name))


def parse_sites(text: bytes, path: Path) -> federation.Grid:
    """Return the sites in the text of that file. Raises BadSites like `read_sites`."""
    return SitesShape.parse(text, str(path), lambda shape: _grid(shape, path))


def _grid(shape: SitesShape, path: Path) -> federation.Grid:
    sites = tuple(SiteReader(path, name, table).site() for name, table in shape.sites.items())
    grid = federation.Grid(
        sites, tuple(_read_link(path, number, table, sites) for number, table in enumerate(shape.links, start=1))
    )
    if len(grid.features) > federation.MOST_FEATURES:
        raise BadSites(
            f"{path}: {len(grid.features)} features", hint=f"{federation.MOST_FEATURES} different ones are the most"
        )
    return grid


def _read_link(path: Path, number: int, table: LinkTable, sites: tuple[federation.Site, ...]) -> federation.Link:
    place, names = f"{path}: links[{number}].between", [site.name for site in sites]
    for end in table.between:
        if end not in names:
            raise BadSites(f"{place}: there is no [sites.{end}]", hint=did_you_mean(end, names))
    if table.between[0] == table.between[1]:
        raise BadSites(f"{place}: {table.between[0]} is there twice", hint="name two sites")
    return federation.Link(table.between, table.latency, table.bandwidth)


class WatchedSites:
    """Reads the file again when it has changed. Raises BadSites if it is wrong at the beginning."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._grid, self._file_version = read_sites(path), _file_version(path)
        self.problem: BadSites | None = None

    def grid(self) -> federation.Grid:
        """Return the sites of the file's last correct state; `problem` is its present error."""
        version = _file_version(self._path)
        if version != self._file_version:
            self._file_version = version
            self._read()
        return self._grid

    def _read(self) -> None:
        try:
            self._grid, self.problem = read_sites(self._path), None
        except BadSites as problem:
            self.problem = problem


def _file_version(path: Path) -> FileVersion | None:
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size, status.st_ino
