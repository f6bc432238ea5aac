"""A policy by its name: a discipline, and perhaps a window policy on top of it ("easy", "greedy", "fcfs+knapsack")."""

from collections.abc import Callable
from dataclasses import dataclass, replace

from offpeak.errors import BadInput
from offpeak.installation import missing_extra
from offpeak.model.arrays import Int64
from offpeak.model.jobs import Jobs
from offpeak.plugin.capacity.peak_shaving import PeakTarget
from offpeak.plugin.capacity.port import CapacityPolicy
from offpeak.plugin.window_policy import NO_POLICY, WindowPolicy, window_policies, window_policy
from offpeak.predictors.trees.forest import can_grow
from offpeak.settings.replay import SchedulingSettings
from offpeak.sim_backend.engine.rules import (
    BEST_FIT,
    CONSERVATIVE,
    EASY,
    EXACT_RUNTIME,
    FCFS,
    FIRST_FIT,
    FORESEEN_RUNTIME,
    PREDICTED_RUNTIME,
    USER_ESTIMATE,
    SchedulingRules,
)
from offpeak.text import did_you_mean

DISCIPLINES = {
    "fcfs": FCFS,
    "easy": EASY,
    "conservative": CONSERVATIVE,
    "first-fit": FIRST_FIT,
    "best-fit": BEST_FIT,
    "bff": FIRST_FIT,
    "bbf": BEST_FIT,
}
DISCIPLINE_DOCS = {
    FCFS: "jobs in order of submission, without overtaking",
    EASY: "backfilling with one reservation",
    CONSERVATIVE: "backfilling with a reservation for every job",
    FIRST_FIT: "backfills, in order, only jobs that end before the reservation",
    BEST_FIT: "as first-fit, but always the job that leaves the fewest nodes free",
}
DEFAULT_DISCIPLINE = "easy"
ESTIMATES = {"user": USER_ESTIMATE, "exact": EXACT_RUNTIME, "predicted": PREDICTED_RUNTIME, "boosted": FORESEEN_RUNTIME}


@dataclass(frozen=True)
class Policy:
    """What is replayed under one name. `kill_at_estimate`: jobs end at their estimate at the latest.

    `capacity` says for each pool of nodes when its nodes sleep; there is none where no node ever sleeps.
    Jobs change places whose priorities differ by at most `priority_band_percent` of their range. `peak` is the target
    of peak shaving, None without it. `hold` gives for each job how long it may be kept back for cheaper hours [s], None
    if no job is.
    """

    name: str
    rules: SchedulingRules
    window_policy: WindowPolicy
    kill_at_estimate: bool
    capacity: tuple[CapacityPolicy, ...] = ()
    peak: PeakTarget | None = None
    hold: Callable[[Jobs], Int64] | None = None
    priority_band_percent: int = 100

    def on(self, capacity: CapacityPolicy, peak: PeakTarget | None = None) -> "Policy":
        """Return this policy on a machine whose nodes sleep as `capacity` says, with peak shaving, named after all."""
        shaved = f"peak:{peak.power_w / 1000:g}kW" if peak else ""
        if capacity.keeps_all_awake:
            return replace(self, name=self._name_with(shaved), capacity=(capacity,), peak=peak) if peak else self
        return replace(self, name=self._name_with(f"{capacity.name} {shaved}".strip()), capacity=(capacity,), peak=peak)

    def on_pools(self, name: str, capacity: tuple[CapacityPolicy, ...]) -> "Policy":
        """Return this policy on pools of nodes, each of which sleeps as its policy says, named after both."""
        if all(each.keeps_all_awake for each in capacity):
            return self
        return replace(self, name=self._name_with(name), capacity=capacity)

    def _name_with(self, capacity: str) -> str:
        if self.rules.pass_per_event:
            raise BadInput(f"{capacity}: nodes that sleep need passes once a second", hint="--passes second")
        return f"{self.name} {capacity}"


def policy_docs() -> dict[str, str]:
    """Return what each discipline and window policy does, by name."""
    windows = {name: policy.doc for name, policy in window_policies().items()}
    return windows | {name: DISCIPLINE_DOCS[number] for name, number in DISCIPLINES.items()}


def parse_policy(name: str, scheduling: SchedulingSettings) -> Policy:
    """Return the policy that `name` means under these settings. Raises BadInput if it means none or lacks an extra."""
    discipline, window = _parts(name)
    if window.most_jobs is not None and scheduling.window > window.most_jobs:
        raise BadInput(
            f"policy {name!r}: a window of {scheduling.window} jobs is too large",
            hint=f"a knapsack's window has at most {window.most_jobs} jobs: --window {window.most_jobs}",
        )
    if scheduling.estimates == "boosted" and not can_grow():
        raise missing_extra("scheduling.estimates: boosted", "predictors", "scikit-learn")
    per_event = scheduling.passes == "event"
    rules = SchedulingRules(
        discipline=discipline,
        policy=window.code,
        window=scheduling.window,
        period_s=scheduling.period_s or 0,
        max_postponement_s=scheduling.max_postponement_s,
        estimates=ESTIMATES[scheduling.estimates],
        pass_per_event=per_event,
    )
    # pyss frees a job's nodes at its estimate, so it knows no jobs that run longer.
    kill_at_estimate = scheduling.kill_at_estimate or per_event
    return Policy(name, rules, window, kill_at_estimate, priority_band_percent=scheduling.priority_band_percent)


def _parts(name: str) -> tuple[int, WindowPolicy]:
    if name in DISCIPLINES:
        return DISCIPLINES[name], NO_POLICY
    discipline, plus, window = name.rpartition("+")
    if not plus:
        discipline = DEFAULT_DISCIPLINE
    if discipline not in DISCIPLINES or (window not in window_policies()):
        known = (*DISCIPLINES, *window_policies())
        raise BadInput(f"unknown policy {name!r}", hint=f"{did_you_mean(name, known)} (two can be joined: fcfs+greedy)")
    return DISCIPLINES[discipline], window_policy(window)
