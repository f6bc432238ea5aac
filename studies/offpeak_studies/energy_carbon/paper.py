"""The paper's figures on single sites: Tables II, VII and VIII, and its text about them.

Energies are products of an average power and an elapsed time, eq. (8), as printed: "kJ", s and W.
"""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class MeasuredRun:
    """One run of a workload on a testbed."""

    energy_kj: float
    elapsed_s: float
    power_w: float


@dataclass(frozen=True)
class MeasuredPair:
    """A column of Table VII or VIII: the same workload under the default and the energy-aware scheduler."""

    default: MeasuredRun
    aware: MeasuredRun
    saved_pct: float

    @property
    def saved_by_product_pct(self) -> float:
        """The saving that the printed powers and times have by eq. (8)."""
        return 100 * (1 - self.aware.power_w * self.aware.elapsed_s / (self.default.power_w * self.default.elapsed_s))

    @property
    def power_saved_pct(self) -> float:
        """The saving of average power."""
        return 100 * (1 - self.aware.power_w / self.default.power_w)

    @property
    def elapsed_ratio(self) -> float:
        """The energy-aware run's elapsed time over the default run's."""
        return self.aware.elapsed_s / self.default.elapsed_s


@dataclass(frozen=True)
class MeasuredCluster:
    """A cluster as it was measured: `rows[way to sleep][utilization in per cent]`.

    `default` is the discipline of its default scheduler, `wide` the number of nodes that its wide jobs request.
    """

    name: str
    nodes: int
    default: str
    wide: int
    rows: Mapping[str, Mapping[int, MeasuredPair]]

    __test__ = False  # pytest takes a class of this name for one of its own


DUNE = MeasuredCluster(
    "dune",
    4,
    # Maui's distributed configuration: BACKFILLPOLICY FIRSTFIT behind a reservation for the first job.
    "easy",
    2,
    {
        "off": {
            0: MeasuredPair(MeasuredRun(176.9, 515.7, 343.4), MeasuredRun(11.8, 517.8, 22.8), 93.3),
            50: MeasuredPair(MeasuredRun(254.5, 648.0, 393.0), MeasuredRun(133.2, 543.2, 250.8), 47.7),
            80: MeasuredPair(MeasuredRun(499.1, 1258.3, 396.8), MeasuredRun(433.4, 1276.9, 339.6), 13.2),
            90: MeasuredPair(MeasuredRun(515.9, 1268.0, 406.9), MeasuredRun(480.5, 1276.7, 376.6), 6.9),
        }
    },
)

_JUGGLE_DEFAULT = {
    0: MeasuredRun(1960, 1000, 1960),
    40: MeasuredRun(3304, 1554, 2126),
    60: MeasuredRun(3345, 1552, 2155),
    80: MeasuredRun(4625, 2088, 2215),
}
JUGGLE = MeasuredCluster(
    "juggle",
    12,
    # "An enhanced FIFO": Torque's distributed sched_config has strict_fifo false, so a job that fits may overtake.
    "first-fit",
    8,
    {
        "standby": {
            0: MeasuredPair(_JUGGLE_DEFAULT[0], MeasuredRun(1300, 1000, 1300), 33.7),
            40: MeasuredPair(_JUGGLE_DEFAULT[40], MeasuredRun(2652, 1634, 1623), 19.7),
            60: MeasuredPair(_JUGGLE_DEFAULT[60], MeasuredRun(3018, 1580, 1910), 9.8),
            80: MeasuredPair(_JUGGLE_DEFAULT[80], MeasuredRun(4410, 2143, 2058), 4.6),
        },
        "powersave": {
            0: MeasuredPair(_JUGGLE_DEFAULT[0], MeasuredRun(1400, 1000, 1400), 28.6),
            40: MeasuredPair(_JUGGLE_DEFAULT[40], MeasuredRun(2701, 1556, 1736), 18.2),
            60: MeasuredPair(_JUGGLE_DEFAULT[60], MeasuredRun(3033, 1558, 1947), 9.3),
            80: MeasuredPair(_JUGGLE_DEFAULT[80], MeasuredRun(4433, 2126, 2085), 4.2),
        },
        "both": {
            0: MeasuredPair(_JUGGLE_DEFAULT[0], MeasuredRun(1280, 1000, 1280), 34.7),
            40: MeasuredPair(_JUGGLE_DEFAULT[40], MeasuredRun(2616, 1620, 1615), 20.8),
            60: MeasuredPair(_JUGGLE_DEFAULT[60], MeasuredRun(3003, 1579, 1902), 10.2),
            80: MeasuredPair(_JUGGLE_DEFAULT[80], MeasuredRun(4389, 2144, 2047), 5.1),
        },
    },
)

TESTBEDS: Mapping[str, MeasuredCluster] = {testbed.name: testbed for testbed in (DUNE, JUGGLE)}

WIDE_SHARE = 0.1
"""Federated test: "the requirements of always 10% of the jobs can only be met on one of the clusters"; on Juggle they
request 8 nodes. The others also fit Jufit, which has two nodes. Its workloads were made from those of the single sites.
"""
NARROW = 2
WALLTIME_S = 720
"""Federated test: "test jobs with an average walltime of 720 seconds"."""

JOBS = 1500
SERVERS = (30, 40, 50)
WIDEST = 20
RUNTIME_S = (600, 86_400)
JOB_CORES = (1, 2, 4)
SERVER_CORES = 4
JOB_LOAD_PCT = (30, 99)
"""Tables II and III: the requests of jobs are drawn uniformly between the two, ends included."""
FEDERATED_SAVED_PCT = (22, 35)
"""Energy-aware against normal schedulers with round-robin over three clusters, Figure 5: lowest and highest."""
