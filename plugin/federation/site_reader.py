"""Makes a site of its table in the file of sites, and says what does not go together there."""

from collections.abc import Callable
from datetime import datetime, time
from pathlib import Path
from typing import TypeVar

import numpy as np

from offpeak.errors import BadInput, BadSites
from offpeak.model.facility import Facility, facility_named
from offpeak.model.local_time import parse_zone
from offpeak.model.node_class import NodeClass
from offpeak.model.node_class_file import bundled_node_class, bundled_node_classes, read_node_class
from offpeak.prices.tariff import Tariff, parse_tariff
from offpeak.text import did_you_mean
from plugin.federation.energy_mix import esc_g_per_kwh
from plugin.federation.reach import Reach
from plugin.federation.reach_reader import BadKey, reach_of
from plugin.federation.site import Site, SiteRoom
from plugin.federation.sites_shape import SiteTable
from predictors.feeds.markets import MARKETS, find_market

Written = TypeVar("Written")
Value = TypeVar("Value")


class SiteReader:
    """One table of the file at `path`."""

    def __init__(self, path: Path, name: str, table: SiteTable) -> None:
        self._path, self._name, self._table = path, name, table

    def site(self) -> Site:
        """Return the site; BadSites with the key and a hint for what is wrong."""
        table, node_class = self._table, self._node_class()
        self._check()
        units = table.nodes or table.cores or 0
        unit_w = node_class.running_w(1.0) if node_class else (table.core_power or 0.0) * table.cores_per_node
        room = self._room(units * unit_w, node_class.idle_w if node_class else 0.0)
        return Site(
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

    def _room(self, full_power_w: float, idle_w: float) -> SiteRoom | None:
        if self._table.facility is None:
            return None

        def named(text: str) -> Facility:
            beside = self._path.parent / text
            return facility_named(str(beside) if text.endswith(".csv") else text, full_power_w=full_power_w)

        return SiteRoom(self._read("facility", self._table.facility, named), self._table.outside, idle_w)

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
            raise BadInput(f"{name!r} is no node class", hint=hint)
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

    def _reach(self) -> Reach | None:
        try:
            return reach_of(self._table, beside=self._path.parent)
        except BadKey as problem:
            raise self._wrong(problem.key, str(problem), hint=problem.hint) from None

    def _esc_g_per_kwh(self) -> float | None:
        mix = self._table.energy_mix
        return self._table.esc if mix is None else self._read("energy_mix", mix, esc_g_per_kwh)

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


def _full_pue(room: SiteRoom, full_power_w: float) -> float:
    return float(room.facility.pue_at(np.array(full_power_w), np.array(room.outside_c)))


def _known_market(zone: str) -> str:
    try:
        return find_market(zone).zone
    except BadInput as problem:
        raise BadInput(f"{zone!r} is no price zone", hint=problem.hint) from None


def _known_carbon_zone(zone: str) -> str:
    known = {market.maps for market in MARKETS}
    if zone not in known:
        raise BadInput(f"{zone!r} is no zone of carbon intensity", hint=did_you_mean(zone, known))
    return zone
