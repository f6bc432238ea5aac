"""When a battery charges and discharges beside a PV plant, so that the bill of a given load is least.

A linear programme, solved by HiGHS: in each slot load + charge = import - export + PV - curtailed PV + discharge. Half
of the loss of a round trip is on each way. A battery cannot charge and discharge at once, which would pay only where a
price is negative: there a binary variable forbids it; elsewhere the optimum without it, which always exists, is
returned. A binary variable also forbids to import and export at once where exports earn more than imports cost.
"""

from dataclasses import dataclass, field, fields, replace

import numpy as np
from numpy.typing import NDArray

from offpeak.errors import OffpeakError
from offpeak.installation import missing_extra
from offpeak.model.arrays import Float64, Int64
from offpeak.model.site_devices import Battery

NOTHING_KW = 1e-6
"""The solver's tolerance."""


@dataclass(frozen=True, eq=False)
class DispatchProblem:
    """The load, the PV power and the prices of each slot of `hours`, as columns of one length.

    While a price is NaN the battery holds, and what is imported and exported has no cost. A row of `demand`,
    bool[charges, slots], is a demand charge: of the highest import in its slots each kW above `peak_so_far_kw` costs
    `peak_per_kw`.
    """

    hours: Float64
    load_kw: Float64
    pv_kw: Float64
    import_per_kwh: Float64
    export_per_kwh: Float64
    battery: Battery
    demand: NDArray[np.bool_]
    peak_per_kw: Float64
    peak_so_far_kw: Float64

    def __len__(self) -> int:
        return len(self.hours)

    @property
    def priced(self) -> NDArray[np.bool_]:
        """In which slots both prices are known."""
        return np.isfinite(self.import_per_kwh + self.export_per_kwh)

    def peaks_kw(self, import_kw: Float64) -> Float64:
        """Return the highest import of each demand charge, at least that so far."""
        highest: Float64 = np.where(self.demand, import_kw, 0.0).max(axis=1, initial=0.0)
        return np.maximum(self.peak_so_far_kw, highest)

    def part(self, first: int, last: int) -> "DispatchProblem":
        """Return the slots from `first` to before `last`."""
        columns = ("hours", "load_kw", "pv_kw", "import_per_kwh", "export_per_kwh")
        taken = {name: getattr(self, name)[first:last] for name in columns}
        return replace(self, **taken, demand=self.demand[:, first:last])


@dataclass(frozen=True, eq=False)
class Dispatch:
    """The mean power of each slot, and what the battery holds at its end, as columns of one length.

    `marginal_per_kwh` is the cost of one more kWh of load in the slot; no column where no programme was solved.
    """

    import_kw: Float64
    export_kw: Float64
    charge_kw: Float64
    discharge_kw: Float64
    curtailed_kw: Float64
    stored_kwh: Float64
    marginal_per_kwh: Float64 = field(default_factory=lambda: np.empty(0))

    def part(self, first: int, last: int) -> "Dispatch":
        """Return the slots from `first` to before `last`."""
        return Dispatch(*(getattr(self, column.name)[first:last] for column in fields(self)))


def cost_of(problem: DispatchProblem, dispatch: Dispatch) -> float:
    """Return the bill of the dispatch: energy, and the peaks above those so far."""
    import_per_kwh, export_per_kwh = _known_prices(problem)
    energy = dispatch.import_kw * import_per_kwh - dispatch.export_kw * export_per_kwh
    peaks_kw = problem.peaks_kw(dispatch.import_kw) - problem.peak_so_far_kw
    return float(energy @ problem.hours + problem.peak_per_kw @ peaks_kw)


def _known_prices(problem: DispatchProblem) -> tuple[Float64, Float64]:
    return np.nan_to_num(problem.import_per_kwh), np.nan_to_num(problem.export_per_kwh)


class _Rows:
    """Rows of a sparse matrix with their bounds."""

    def __init__(self) -> None:
        self.row: list[Int64] = []
        self.column: list[Int64] = []
        self.value: list[Float64] = []
        self.bound: list[Float64] = []
        self.count = 0

    def add(self, bound: Float64, *terms: tuple[Int64, Float64 | float]) -> None:
        """Add a row for each bound; a term is the column and the coefficient in each of them."""
        for column, value in terms:
            self.row.append(np.arange(self.count, self.count + len(bound)))
            self.column.append(column)
            self.value.append(np.broadcast_to(value, len(bound)))
        self.bound.append(bound)
        self.count += len(bound)

    def entries(self) -> tuple[Float64, tuple[Int64, Int64]]:
        """Return the values with rows and columns, as scipy.sparse takes them."""
        return np.concatenate(self.value), (np.concatenate(self.row), np.concatenate(self.column))


def solve_dispatch(problem: DispatchProblem, *, relaxed: bool = False) -> Dispatch:
    """Return the cheapest dispatch; `relaxed`: without binary variables, so that its cost is a bound of all dispatches.

    The end state of the battery is one that can be reached. Raises BadInput without scipy.
    """
    try:
        from scipy.optimize import linprog
        from scipy.sparse import csr_array
    except ImportError:
        raise missing_extra("a plan with PV and battery", "predictors", "scipy") from None
    slots, battery, hours = len(problem), problem.battery, problem.hours
    import_per_kwh, export_per_kwh = _known_prices(problem)
    one_way = battery.efficiency**0.5
    may = problem.priced.astype(np.float64)
    charge_kw, discharge_kw = battery.charge_kw * may, battery.discharge_kw * may
    burns = np.flatnonzero((np.minimum(import_per_kwh, export_per_kwh) < 0) & (not relaxed))
    does_trade = export_per_kwh > import_per_kwh
    trades, hull = np.flatnonzero(does_trade & (not relaxed)), np.flatnonzero(does_trade & relaxed)
    # A kilowatt more than there can be: a bound that binds hides a part of the marginal price.
    most_import_kw, most_export_kw = (
        np.where(does_trade, own_kw + more_kw + (not relaxed), np.inf)
        for own_kw, more_kw in ((problem.load_kw, charge_kw), (problem.pv_kw, discharge_kw))
    )
    sizes = (*[slots] * 6, len(problem.demand), len(burns), len(trades))
    ends = np.cumsum(sizes)
    imported, exported, charged, discharged, curtailed, stored, peak, is_charging, is_importing = (
        np.arange(end - size, end) for end, size in zip(ends, sizes, strict=True)
    )
    equal, below = _Rows(), _Rows()
    balance = (imported, 1.0), (exported, -1.0), (charged, -1.0), (discharged, 1.0), (curtailed, -1.0)
    equal.add(problem.load_kw - problem.pv_kw, *balance)
    into, out_of = -one_way * hours, hours / one_way
    equal.add(np.array([battery.start_kwh]), (stored[:1], 1.0), (charged[:1], into[:1]), (discharged[:1], out_of[:1]))
    later = (stored[1:], 1.0), (stored[:-1], -1.0), (charged[1:], into[1:]), (discharged[1:], out_of[1:])
    equal.add(np.zeros(slots - 1), *later)
    # The convex hull of "charges or discharges"; below it, in a relaxed programme, that of "imports or exports".
    both_kw = battery.charge_kw * battery.discharge_kw
    below.add(np.full(slots, both_kw), (charged, battery.discharge_kw), (discharged, battery.charge_kw))
    charge, slot = np.nonzero(problem.demand)
    below.add(np.zeros(len(slot)), (imported[slot], 1.0), (peak[charge], -1.0))
    below.add(np.zeros(len(burns)), (charged[burns], 1.0), (is_charging, -charge_kw[burns]))
    below.add(discharge_kw[burns], (discharged[burns], 1.0), (is_charging, discharge_kw[burns]))
    below.add(np.zeros(len(trades)), (imported[trades], 1.0), (is_importing, -most_import_kw[trades]))
    below.add(most_export_kw[trades], (exported[trades], 1.0), (is_importing, most_export_kw[trades]))
    most_trade = most_import_kw[hull] * most_export_kw[hull]
    below.add(most_trade, (imported[hull], most_export_kw[hull]), (exported[hull], most_import_kw[hull]))

    cost, least, most = np.zeros(ends[-1]), np.zeros(ends[-1]), np.ones(ends[-1])
    cost[imported], cost[exported], cost[peak] = import_per_kwh * hours, -export_per_kwh * hours, problem.peak_per_kw
    reachable_kwh = battery.start_kwh + one_way * float(charge_kw @ hours)
    least[stored[-1]], least[peak] = min(battery.end_kwh, reachable_kwh), problem.peak_so_far_kw
    most[: ends[5]] = np.concatenate(
        [most_import_kw, most_export_kw, charge_kw, discharge_kw, problem.pv_kw, np.full(slots, battery.capacity_kwh)]
    )
    most[peak] = np.inf
    binary = np.arange(ends[-1]) >= ends[6]
    model = {
        "c": cost,
        "A_ub": csr_array(below.entries(), shape=(below.count, ends[-1])),
        "b_ub": np.concatenate(below.bound),
        "A_eq": csr_array(equal.entries(), shape=(equal.count, ends[-1])),
        "b_eq": np.concatenate(equal.bound),
        "method": "highs",
    }
    if binary.any():
        found = linprog(**model, bounds=np.stack([least, most], axis=1), integrality=binary.astype(np.int64))
        if found.x is not None:
            # With the binary variables as they are, the programme is linear and has marginal prices.
            least[binary] = most[binary] = np.rint(found.x[binary])
    found = linprog(**model, bounds=np.stack([least, most], axis=1))
    if found.x is None or found.status:
        raise OffpeakError(f"no schedule of the battery was found: {found.message}")
    columns = [found.x[at] for at in (imported, exported, charged, discharged, curtailed, stored)]
    found_kw = (*np.maximum(columns, 0.0), found.eqlin.marginals[:slots] / hours)
    dispatch = Dispatch(*found_kw)
    return dispatch if relaxed else _one_way_only(problem, dispatch)


def _one_way_only(problem: DispatchProblem, found: Dispatch) -> Dispatch:
    """Return the dispatch without what it charges and discharges, or imports and exports, at once; it costs no more."""
    efficiency = problem.battery.efficiency
    through_kw = np.minimum(found.import_kw, found.export_kw)
    cycled_kw = np.minimum(found.charge_kw, found.discharge_kw / efficiency)
    spare_kw = cycled_kw * (1 - efficiency)
    import_kw, export_kw = found.import_kw - through_kw, found.export_kw - through_kw
    saved_kw = np.minimum(import_kw, spare_kw)
    more_curtailed_kw = np.minimum(problem.pv_kw - found.curtailed_kw, spare_kw - saved_kw).clip(0)
    return replace(
        found,
        import_kw=import_kw - saved_kw,
        export_kw=export_kw + spare_kw - saved_kw - more_curtailed_kw,
        charge_kw=found.charge_kw - cycled_kw,
        discharge_kw=found.discharge_kw - cycled_kw * efficiency,
        curtailed_kw=found.curtailed_kw + more_curtailed_kw,
    )


def operate(actual: DispatchProblem, planned: Dispatch) -> Dispatch:
    """Return what becomes of a plan under the actual load and PV power.

    The battery follows the plan. Where that exports and curtails nothing, the battery neither discharges into the grid
    nor leaves a surplus of PV to it. Where peaks have a price, it keeps imports below the peak that is planned or paid
    for, as long as it can. A surplus is curtailed while exports have a negative price.
    """
    battery, stored_kwh = actual.battery, actual.battery.start_kwh
    one_way = battery.efficiency**0.5
    is_closed = (planned.export_kw < NOTHING_KW) & (planned.curtailed_kw < NOTHING_KW) & actual.priced
    paid_kw, charged = actual.peaks_kw(planned.import_kw), actual.demand & actual.priced
    columns = (actual.hours, actual.load_kw - actual.pv_kw, actual.pv_kw, actual.export_per_kwh)
    plans = (planned.charge_kw, planned.discharge_kw, planned.curtailed_kw, is_closed)
    rows = []
    for slot, (hours, net_kw, pv_kw, export_per_kwh, charge_kw, discharge_kw, curtailed_kw, closed) in enumerate(
        zip(*(column.tolist() for column in (*columns, *plans)), strict=True)
    ):
        demand = charged[:, slot]
        least_paid_kw = float(paid_kw[demand].min(initial=np.inf))
        curtailed_kw = min(curtailed_kw, pv_kw, max(least_paid_kw - net_kw, 0.0))
        if closed:
            discharge_kw = min(discharge_kw, max(net_kw, 0.0))
            charge_kw = max(charge_kw, min(-net_kw, battery.charge_kw))
        above_kw = net_kw + curtailed_kw - least_paid_kw
        charge_kw = min(charge_kw, max(-above_kw, 0.0))
        discharge_kw = max(discharge_kw, min(above_kw, battery.discharge_kw))
        charge_kw = min(charge_kw, (battery.capacity_kwh - stored_kwh) / (hours * one_way))
        discharge_kw = min(discharge_kw, stored_kwh * one_way / hours)
        grid_kw = net_kw + charge_kw - discharge_kw + curtailed_kw
        if export_per_kwh < 0:
            more_kw = min(max(-grid_kw, 0.0), pv_kw - curtailed_kw)
            curtailed_kw, grid_kw = curtailed_kw + more_kw, grid_kw + more_kw
        stored_kwh += hours * (charge_kw * one_way - discharge_kw / one_way)
        paid_kw[demand] = np.maximum(paid_kw[demand], grid_kw)
        rows.append((max(grid_kw, 0.0), max(-grid_kw, 0.0), charge_kw, discharge_kw, curtailed_kw, stored_kwh))
    return Dispatch(*np.array(rows, np.float64).reshape(-1, 6).T)


def hold(problem: DispatchProblem) -> Dispatch:
    """Return what becomes of a battery that only takes a surplus of PV."""
    no_demand = replace(problem, demand=problem.demand & False)
    return operate(no_demand, Dispatch(*np.zeros((6, len(problem)))))
