"""The yearly sheet of a data centre, each value with its origin: measured, entered, modelled or not known.

Sources: indicators and formulas, Delegated Regulation (EU) 2024/1364, Annexes I to III, which names EN 50600-4-2 (PUE),
-4-3 (REF), -4-6 (ERF) and -4-9 (WUE); customers, EnEfG (Germany) paragraph 15, register, paragraph 13 with Annex 3;
scope 2, GHG Protocol Scope 2 Guidance (2015), chapter 6; embodied share, ISO/IEC 21031:2024. A value that is not known
is None, never 0, and its basis says how to make it known.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from sqlalchemy import Connection, select

from offpeak.ledger.energy_use import UsePeriod
from offpeak.ledger.job_costs import AccountUse, account_uses, known_sum, sum_uses
from offpeak.ledger.node_energy import sum_energy
from offpeak.ledger.prices import slot_intensities
from offpeak.ledger.tables import states
from offpeak.model.constants import HOUR_S, J_PER_KWH
from offpeak.model.facility import facility_named
from offpeak.model.time_range import TimeRange
from offpeak.services.accounts.job_use import ALL
from offpeak.services.accounts.savings import ENOUGH_MEASURED
from offpeak.settings.ledger import DataCentreSettings
from offpeak.settings.plan import PlanSettings
from offpeak.settings.table import BY_NAME
from offpeak.text import counted

MEASURED, ENTERED, MODELLED, UNKNOWN = "measured", "entered", "modelled", "not known"
DATA_CENTRE, CUSTOMER, MONTH = "data centre", "customer", "month"
NO_JOB = "(no job)"
YEAR_H = 8766


@dataclass(frozen=True)
class MonthEnergy:
    """The measured energy of all nodes in a month, or the part of it that is over, and the measured share."""

    name: str
    length_s: float
    covered: float
    energy_j: float
    without_carbon_j: float
    carbon_g: float | None

    @property
    def intensity_share(self) -> float:
        """The share of the energy with a known carbon intensity."""
        return 1 - self.without_carbon_j / self.energy_j if self.energy_j else 0.0


@dataclass(frozen=True)
class YearUse:
    """What the ledger knows of a year: its months so far, the nodes, and the jobs that ended, by account."""

    year: int
    is_over: bool
    nodes: int
    months: tuple[MonthEnergy, ...]
    accounts: tuple[AccountUse, ...]

    @property
    def whole(self) -> MonthEnergy:
        """The sum of the months."""
        length_s = sum(month.length_s for month in self.months)
        return MonthEnergy(
            name=str(self.year),
            length_s=length_s,
            covered=sum(month.covered * month.length_s for month in self.months) / length_s,
            energy_j=sum(month.energy_j for month in self.months),
            without_carbon_j=sum(month.without_carbon_j for month in self.months),
            carbon_g=known_sum(month.carbon_g for month in self.months),
        )


def read_year_use(connection: Connection, year: int, months: Sequence[UsePeriod], *, is_over: bool) -> YearUse:
    """Return the use of a year; its nodes are those with a reading or a change of state in it."""
    span = TimeRange(months[0].from_unix_s, months[-1].until_unix_s)
    found, _ = sum_energy(connection, months, read_prices=slot_intensities)
    changed = (states.c.at_unix_s >= span.from_unix_s) & (states.c.at_unix_s < span.until_unix_s)
    nodes = set(connection.execute(select(states.c.node).where(changed).distinct()).scalars())
    nodes |= {node for _, node in found}
    of_months = []
    for number, month in enumerate(months):
        length_s = month.until_unix_s - month.from_unix_s
        sums = [each for (period, _), each in found.items() if period == number]
        energy = MonthEnergy(
            name=month.name,
            length_s=length_s,
            covered=sum(min(1.0, each.covered_s / length_s) for each in sums) / max(1, len(nodes)),
            energy_j=sum(each.energy_j for each in sums),
            without_carbon_j=sum(each.without_carbon_j for each in sums),
            carbon_g=known_sum(each.carbon_g for each in sums),
        )
        of_months.append(energy)
    by_name: dict[str, list[AccountUse]] = {}
    for use in account_uses(connection, span):
        by_name.setdefault(use.account, []).append(use)
    accounts = tuple(sum_uses(name, "", uses) for name, uses in by_name.items())
    return YearUse(year, is_over, len(nodes), tuple(of_months), accounts)


@dataclass(frozen=True)
class SheetValue:
    """A value of the sheet; `part` is the data centre, a customer or a month, `of` the name of the latter two.

    `basis` says how the value is known, or how to make it known; `rule` where it is required or defined.
    """

    name: str
    unit: str
    basis: str
    value: float | None = None
    origin: str = UNKNOWN
    symbol: str = ""
    rule: str = ""
    part: str = DATA_CENTRE
    of: str = ""


ENTERED_VALUES = {
    "it_power_kw": ("PD_IT", "Annex II 1 (a)"),
    "floor_area_m2": ("S_DC", "Annex II 1 (b)"),
    "total_energy_kwh": ("E_DC", "Annex II 1 (d)"),
    "it_energy_kwh": ("E_IT", "Annex II 1 (e)"),
    "water_m3": ("W_IN", "Annex II 1 (h)"),
    "reused_heat_kwh": ("E_REUSE", "Annex II 1 (j)"),
    "cooling_degree_days": ("CDD", "Annex II 1 (n)"),
    "certificates_kwh": ("E_RES-GOO", "Annex II 1 (p)"),
    "agreements_kwh": ("E_RES-PPA", "Annex II 1 (q)"),
    "on_site_kwh": ("E_RES-OS", "Annex II 1 (r)"),
    "contract_g_per_kwh": ("", ""),
}
"""By setting: the symbol of the indicator, and where the Delegated Regulation requires it."""
LEFT_TO_OPERATOR = (
    *("Name", "Owner and operator", "Location (LAU code)", "Type", "Entry into operation", "Redundancy levels"),
    *("Computer room floor area, S_CR", "Energy of back-up generators, E_DC-BG", "Electrical grid functions"),
    *("Battery capacity, C_BtG", "Potable water input, W_IN-POT", "Waste heat temperature, T_WH", "Refrigerants"),
    *("Intake air temperature, T_IN", "ICT capacity of servers, C_SERV", "ICT capacity of storage, C_STOR"),
    *("Traffic bandwidths, B_IN and B_OUT", "Data traffic, T_IN and T_OUT"),
)
"""What the Annexes I and II require besides, and offpeak has no use for."""
RATIOS = (
    ("PUE", "Power Usage Effectiveness", "", "E_DC", "E_IT", 1.0, "Annex III (a); EnEfG Annex 3"),
    ("WUE", "Water Usage Effectiveness", "m3/MWh", "W_IN", "E_IT", 1000.0, "Annex III (b); EnEfG Annex 3"),
    ("ERF", "Energy Reuse Factor", "", "E_REUSE", "E_DC", 1.0, "Annex III (c); EnEfG Annex 3"),
    ("REF", "Renewable Energy Factor", "", "E_RES-TOT", "E_DC", 1.0, "Annex III (d); EnEfG Annex 3"),
)
SCOPE_2, ISO_SCI = "GHG Protocol Scope 2 Guidance, chapter 6", "ISO/IEC 21031:2024"


def make_sheet(use: YearUse, settings: DataCentreSettings, plan: PlanSettings) -> tuple[SheetValue, ...]:
    """Return all values: of the data centre, its customers and the months. Raises BadInput for a wrong facility."""
    entered = {symbol or name: _entered(settings, name, use.year) for name, (symbol, _) in ENTERED_VALUES.items()}
    contract, sheet = entered.pop("contract_g_per_kwh"), entered
    sheet["E_NODES"], sheet["E_IT"] = _metered(use, sheet["E_IT"])
    if sheet["E_DC"].value is None and plan.facility:
        sheet["E_DC"] = _modelled_total(use, plan, sheet)
    parts = [sheet[symbol] for symbol in ("E_RES-GOO", "E_RES-PPA", "E_RES-OS")]
    green = SheetValue("Total renewable energy", "kWh", "sum", symbol="E_RES-TOT", rule="Annex II 1 (o)")
    sheet["E_RES-TOT"] = _derived(use, green, parts, lambda *kwh: sum(kwh))
    for symbol, name, unit, top, below, factor, rule in RATIOS:
        blank = SheetValue(name, unit, f"{top} / {below}", symbol=symbol, rule=rule)
        sheet[symbol] = _derived(use, blank, [sheet[top], sheet[below]], lambda one, two, x=factor: x * one / two)
    if (pue := sheet["PUE"].value) is not None and pue < 1:
        sheet["PUE"], pue = _unknown(sheet["PUE"], "E_DC is smaller than E_IT, which is impossible: check both"), None
    values = [*sheet.values(), *_scope_2(use, sheet, contract)]
    values += [SheetValue(name, "", "fill it in", rule="Annexes I and II") for name in LEFT_TO_OPERATOR]
    kg_per_node_h = _product(settings.node_embodied_kg, 1 / settings.node_lifetime_years / YEAR_H)
    hours = use.nodes * use.whole.length_s / HOUR_S if use.nodes else None
    embodied = SheetValue("CO2e, embodied share of nodes", "kg", "set data_centre.node_embodied_kg", rule=ISO_SCI)
    if (kg := _product(hours, kg_per_node_h)) is not None:
        basis = f"{hours:,.0f} node-hours of {kg_per_node_h:.4g} kg, by data_centre.node_embodied_kg and lifetime"
        embodied = replace(embodied, value=kg, origin=ENTERED, basis=basis)
    return (*values, embodied, *_customers(use, pue, kg_per_node_h), *_months(use))


def _entered(settings: DataCentreSettings, name: str, year: int) -> SheetValue:
    setting, value = BY_NAME[f"data_centre.{name}"], getattr(settings, name)
    symbol, rule = ENTERED_VALUES[name]
    title = setting.doc.removesuffix(".").removesuffix(f", {symbol}")
    blank = SheetValue(title, setting.unit, f"set {setting.name}", symbol=symbol, rule=rule)
    if value is None:
        return blank
    if settings.year != year:
        belongs = f"is of {settings.year}" if settings.year else "belongs to no year: set data_centre.year"
        return _unknown(blank, f"{setting.name} {belongs}")
    return replace(blank, value=value, origin=ENTERED, basis=setting.name)


def _unknown(value: SheetValue, why: str) -> SheetValue:
    return replace(value, value=None, origin=UNKNOWN, basis=why)


def _derived(
    use: YearUse, blank: SheetValue, inputs: Sequence[SheetValue], formula: Callable[..., float]
) -> SheetValue:
    """Return the value of the formula, with the origins of all inputs; not known if one is not, or the year goes on."""
    missing = [value.symbol or value.name for value in inputs if value.value is None]
    if missing:
        return _unknown(blank, f"needs {' and '.join(missing)}")
    if not use.is_over:
        return _unknown(blank, f"{use.year} is not over")
    try:
        value = formula(*(each.value for each in inputs))
    except ZeroDivisionError:
        return _unknown(blank, f"{inputs[-1].symbol} is 0")
    known = {origin for each in inputs for origin in each.origin.split(" and ")}
    return replace(blank, value=value, origin=" and ".join(o for o in (MEASURED, ENTERED, MODELLED) if o in known))


def _percent(share: float) -> str:
    """Return a share in per cent; nearly all does not read as all."""
    return f"{min(100 * share, 99.9 if share < ALL else 100.0):.1f} %"


def _metered(use: YearUse, it: SheetValue) -> tuple[SheetValue, SheetValue]:
    """Return the energy of nodes as measured, and E_IT: as entered, else by these meters, small gaps at the mean."""
    covered, kwh = use.whole.covered, use.whole.energy_j / J_PER_KWH
    basis = f"{_percent(covered)} of the time of {counted(use.nodes, 'node')}; gaps are not filled"
    nodes = SheetValue("Energy by the meters of nodes", "kWh", basis, kwh, MEASURED, symbol="E_NODES")
    if not covered:
        nodes = _unknown(nodes, "no meter of a node was read")
    if it.value is not None:
        return nodes, it
    if covered < ENOUGH_MEASURED:
        return nodes, _unknown(it, f"{it.basis}, or measure 90 %: {nodes.basis}")
    basis = "meters of nodes (EN 50600-4-2 category 2 or 3), without network and storage"
    if covered >= ALL:
        return nodes, replace(it, value=kwh, origin=MEASURED, basis=basis)
    return nodes, replace(it, value=kwh / covered, origin=MODELLED, basis=f"{basis}; {_percent(covered)} measured")


def _modelled_total(use: YearUse, plan: PlanSettings, sheet: Mapping[str, SheetValue]) -> SheetValue:
    """Return E_DC by the facility's table of PUE, at the mean power of each month."""
    total, peak_kw, months = sheet["E_DC"], sheet["PD_IT"].value, [month for month in use.months if month.energy_j]
    if not peak_kw or not months:
        return _unknown(total, f"{total.basis}; plan.facility models it with PD_IT and readings")
    facility = facility_named(str(plan.facility), full_power_w=1000 * peak_kw)
    energy_j = np.array([month.energy_j for month in months])
    pue = facility.pue_at(energy_j / [month.length_s * month.covered for month in months], np.array(plan.outside_c))
    mean_pue = float(np.average(pue, weights=energy_j))
    basis = f"PUE of plan.facility {plan.facility} at {plan.outside_c:g} C and the mean power of each month"
    derived = _derived(use, replace(total, basis=basis), [sheet["E_IT"]], lambda kwh: kwh * mean_pue)
    return derived if derived.value is None else replace(derived, origin=MODELLED)


def _scope_2(use: YearUse, sheet: Mapping[str, SheetValue], contract: SheetValue) -> Iterator[SheetValue]:
    """Yield scope 2: by location at the intensity of each quarter-hour, by market at that of the contract."""
    year = use.whole
    intensity = SheetValue("Carbon intensity by quarter-hours", "g/kWh", "", symbol="CI")
    share = _percent(year.intensity_share)
    if year.carbon_g is None or year.intensity_share < ENOUGH_MEASURED:
        part = "" if year.carbon_g is None else f", which has {year.carbon_g / 1000:,.2f} kg CO2e"
        intensity = _unknown(intensity, f"known for {share} of the energy{part}: set feeds.carbon or carbon.file")
    else:
        known_kwh = year.energy_j * year.intensity_share / J_PER_KWH
        origin = MEASURED if year.intensity_share >= ALL else MODELLED
        basis = f"intensity of the grid in the ledger, for {share} of the measured energy"
        intensity = replace(intensity, value=year.carbon_g / known_kwh, origin=origin, basis=basis)
    yield intensity
    for symbol, what in (("E_IT", "IT equipment"), ("E_DC", "data centre")):
        blank = SheetValue(f"CO2e, scope 2 by location, {what}", "kg", f"{symbol} x CI", rule=SCOPE_2)
        yield _derived(use, blank, [sheet[symbol], intensity], lambda kwh, grams: kwh * grams / 1000)
    yield contract
    basis = "E_DC less E_RES-TOT, at the factor of the contract; certificates count by the year"
    market = SheetValue("CO2e, scope 2 by market, data centre", "kg", basis, rule=SCOPE_2)
    inputs = [sheet["E_DC"], sheet["E_RES-TOT"], contract]
    yield _derived(use, market, inputs, lambda kwh, green, grams: max(0.0, kwh - green) * grams / 1000)
    hourly = "certificates are entered by the year: their hours are not known"
    yield replace(_unknown(market, hourly), name="CO2e, scope 2 by market and hour")


def _customers(use: YearUse, pue: float | None, kg_per_node_h: float | None) -> Iterator[SheetValue]:
    """Yield the values of each customer, which is an account, and the energy of nodes that no job used."""
    for account in use.accounts:
        parts = {MEASURED: account.measured_j + account.partly_j, MODELLED: account.partly_j + account.modelled_j}
        origin = " and ".join(name for name, joules in parts.items() if joules)
        kwh = account.energy_j / J_PER_KWH if origin else None
        node_h = None if account.node_s is None else account.node_s / HOUR_S
        lacking = f"; {counted(account.unknown, 'job')} without a known energy" if account.unknown else ""
        for name, value, unit, how, basis in (
            ("jobs", float(account.jobs), "", MEASURED, "ended in the year"),
            ("energy", kwh, "kWh", origin, f"of jobs that ended in the year{lacking}; EnEfG paragraph 15"),
            ("overhead", _product(kwh, pue and pue - 1), "kWh", MODELLED, "energy x (PUE - 1)"),
            ("CO2e", _product(account.carbon_g, 1e-3), "kg", origin, "by location, as booked"),
            ("node-hours", node_h, "h", MEASURED, "a shared node counts for each of its jobs"),
            ("embodied", _product(node_h, kg_per_node_h), "kg", ENTERED, "node-hours x data_centre.node_embodied_kg"),
        ):
            known = UNKNOWN if value is None else how
            yield SheetValue(name, unit, basis, value, known, part=CUSTOMER, of=account.account)
    rest_kwh = (use.whole.energy_j - sum(account.energy_j for account in use.accounts)) / J_PER_KWH
    if use.whole.covered >= ENOUGH_MEASURED and rest_kwh >= 0:
        yield SheetValue("energy", "kWh", "E_NODES less all jobs", rest_kwh, MODELLED, part=CUSTOMER, of=NO_JOB)


def _product(one: float | None, other: float | None) -> float | None:
    return None if one is None or other is None else one * other


def _months(use: YearUse) -> Iterator[SheetValue]:
    for month in use.months:
        has_energy = month.covered > 0
        for name, value, unit, basis in (
            ("energy", month.energy_j / J_PER_KWH if has_energy else None, "kWh", "of nodes, as measured"),
            ("measured", 100 * month.covered, "%", f"of the time of {counted(use.nodes, 'node')}"),
            ("with intensity", 100 * month.intensity_share if has_energy else None, "%", "of the measured energy"),
            ("CO2e", _product(month.carbon_g, 1e-3), "kg", "by location, where known"),
        ):
            origin = UNKNOWN if value is None else MEASURED
            yield SheetValue(name, unit, basis, value, origin, part=MONTH, of=month.name)


def _ranges(some: Sequence[str], of: Sequence[str]) -> str:
    """Return some of the months in ranges: "2026-01 to 2026-10, 2026-12"."""
    runs: list[list[str]] = []
    for name in some:
        if runs and of.index(name) == of.index(runs[-1][-1]) + 1:
            runs[-1].append(name)
        else:
            runs.append([name])
    return ", ".join(run[0] if len(run) == 1 else f"{run[0]} to {run[-1]}" for run in runs)


def gaps(use: YearUse) -> list[str]:
    """Return what is missing in which months, in sentences."""
    shares = {
        "readings of nodes": {month.name: month.covered for month in use.months},
        "carbon intensity": {month.name: month.intensity_share for month in use.months if month.covered},
    }
    lines = []
    for what, by_month in shares.items():
        none = [name for name, share in by_month.items() if share <= 0]
        some = [f"{name} ({_percent(share)})" for name, share in by_month.items() if 0 < share < ALL]
        lines += [f"No {what} in {_ranges(none, list(by_month))}."] if none else []
        lines += [f"Only part of the {what} in {', '.join(some)}."] if some else []
    return lines
