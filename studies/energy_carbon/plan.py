"""What has to be run: the cells of the testbed tables, the same with an assumption changed, and the simulations."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from studies.energy_carbon.experiment import (
    ANY_WIDTH,
    AS_MEASURED,
    Measurement,
    Simulation,
    SingleSiteExperiment,
    SingleSiteReplays,
    experiments,
)
from studies.energy_carbon.paper import DUNE, JUGGLE, SERVERS, TESTBEDS, WALLTIME_S, MeasuredCluster

DISCIPLINES = {"FIFO": "fcfs", "BFF": "first-fit", "BBF": "best-fit"}
LOADS = (0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.2)
MAUI_PERIOD_S = 60


@dataclass(frozen=True)
class MeasurementChange:
    """One assumption that is made otherwise: fields of a Measurement."""

    what: str
    fields: Mapping[str, Any] = field(default_factory=dict)

    def of(self, case: Measurement) -> Measurement:
        """Return the case with this change."""
        return replace(case, **self.fields)


NO_CHANGE = MeasurementChange("as above")
AT_ONCE = MeasurementChange("every idle node sleeps at once, needed or not", {"keeps": False})
CHANGES: Mapping[str, tuple[MeasurementChange, ...]] = {
    DUNE.name: (
        NO_CHANGE,
        AT_ONCE,
        MeasurementChange("Maui without backfilling", {"default": "fcfs"}),
        MeasurementChange("jobs of 1 to 4 nodes", {"widths": ANY_WIDTH}),
        MeasurementChange("jobs of 1 to 4 nodes, Maui without backfilling", {"widths": ANY_WIDTH, "default": "fcfs"}),
        MeasurementChange(f"all jobs ask for {WALLTIME_S} s", {"walltime_s": WALLTIME_S}),
        MeasurementChange(f"Maui looks at its queue every {MAUI_PERIOD_S} s", {"period_s": MAUI_PERIOD_S}),
    ),
    JUGGLE.name: (NO_CHANGE, AT_ONCE, MeasurementChange("PBS without overtaking", {"default": "fcfs"})),
}


def loads_of(testbed: MeasuredCluster) -> tuple[int, ...]:
    """Return the utilizations [%] at which a testbed ran jobs."""
    return tuple(load for load in next(iter(testbed.rows.values())) if load)


def cells(testbed: MeasuredCluster) -> list[Measurement]:
    """Return the cells of a testbed's table that have jobs."""
    return [Measurement(testbed.name, way, load, testbed.default) for way in testbed.rows for load in loads_of(testbed)]


def first_way(testbed: MeasuredCluster) -> list[Measurement]:
    """Return the cells of its first way to sleep, on which assumptions are changed."""
    way = next(iter(testbed.rows))
    return [case for case in cells(testbed) if case.way == way]


def as_measured(case: Measurement) -> Measurement:
    """Return the case with both elapsed times as the table has them."""
    return replace(case, reading=AS_MEASURED)


def planned(replays: SingleSiteReplays) -> tuple[SingleSiteExperiment, ...]:
    """Return the experiments, each once."""
    cases: list[Measurement | Simulation] = []
    for testbed in TESTBEDS.values():
        cases += [read for case in cells(testbed) for read in (case, as_measured(case))]
        cases += [change.of(case) for change in CHANGES[testbed.name] for case in first_way(testbed)]
    cases += [
        Simulation(servers, discipline, load)
        for servers in SERVERS
        for discipline in DISCIPLINES.values()
        for load in LOADS
    ]
    return tuple(dict.fromkeys(each for case in cases for each in experiments(case, replays)))
