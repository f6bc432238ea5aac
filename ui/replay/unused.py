"""Refuses options of a replay that cannot change its answer, and says why.

A setting of the file may be there for other commands: only what a user gives with this command is refused.
"""

from collections.abc import Callable, Collection
from dataclasses import dataclass

from offpeak.errors import BadInput
from offpeak.model.job_power import PowerClasses, UniformPower, default_power_model, parse_power_model
from offpeak.model.local_time import parse_zone, zone_text
from offpeak.model.node_class_file import node_class_named
from offpeak.prices.tariff_file import is_file, site_tariff
from offpeak.settings.table import BY_NAME, Settings
from plugin.window_policy import ARRIVAL
from power.capacity.registry import expand_front
from sim_backend.engine.state import FCFS
from sim_backend.replay.policy import parse_policy
from ui.estimate.accounting_source import Accounting, zone_of

FOR_JOBS_ALONE = {"timeout", "energy-aware", "break-even", "priced"}
"""The capacity policies under which a node wakes for a job that is given it."""


@dataclass(frozen=True)
class ReplayBasis:
    """What decides which options have an effect; `is_repeated`: submissions are shifted at random in several replays.

    An estimate is repeated, tries a target of its own, and keeps jobs back by what decisions go by.
    """

    settings: Settings
    accounting: Accounting
    is_repeated: bool
    is_estimate: bool = False

    def sleepers(self) -> set[str]:
        """The kinds of the capacity policies that let nodes sleep."""
        kinds = {name.strip().partition(":")[0] for name in expand_front(self.settings.capacity.policies)}
        return kinds - {"always-on"}

    def wakes_without_job(self) -> bool:
        """Whether nodes wake for other reasons than a job that is given them."""
        return bool(self.settings.capacity.wake_ahead_s or self.sleepers() - FOR_JOBS_ALONE)

    def orders(self) -> bool:
        """Whether a policy orders the queue by the power of jobs."""
        scheduling = self.settings.scheduling
        return any(parse_policy(name, scheduling).rules.policy != ARRIVAL for name in scheduling.policies)

    def plans(self) -> bool:
        """Whether a policy goes by the expected ends of jobs."""
        scheduling = self.settings.scheduling
        backfills = any(parse_policy(name, scheduling).rules.discipline != FCFS for name in scheduling.policies)
        return backfills or bool(self.sleepers())

    def has_tariff_file(self) -> bool:
        """Whether a tariff file is set."""
        return self.settings.prices.tariff is not None and is_file(self.settings.prices.tariff)

    def follows_peak_rule(self) -> bool:
        """Whether no tariff has on-peak hours of its own, which come before the rule."""
        prices = self.settings.prices
        return prices.file is not None or prices.decide_by != "price" or self.has_tariff_file()

    def has_demand_charge(self) -> bool:
        """Whether the tariff has a demand charge."""
        log, tariff = self.settings.log, self.settings.prices.tariff
        return tariff is not None and self.has_tariff_file() and bool(site_tariff(tariff, zone_of(log)).demand)

    def is_drawn(self) -> bool:
        """Whether anything is drawn at random: submissions, the power of jobs, or failures of nodes."""
        power, jobs = self.settings.power, self.accounting.trace.jobs
        model = parse_power_model(power.job) if power.job else default_power_model(jobs)
        depths = node_class_named(power.node_class).depths if power.node_class else ()
        fails = any(way.failure_probability for depth in depths for way in (depth.enter, depth.leave))
        return self.is_repeated or fails or isinstance(model, UniformPower | PowerClasses)

    def uses_idle_power(self) -> bool:
        """Whether some node draws what is set: without sleep all, else those without a power class of their own."""
        cluster, named = self.accounting.cluster, self.settings.power.node_class
        if self.is_estimate or cluster is None or not (self.sleepers() or named):
            return True
        return not all(pool.node_type.power_class for pool in cluster.pools)

    def lacks_zone(self) -> bool:
        """Whether the log does not name a time zone other than that of the settings."""
        named, chosen = self.accounting.trace.time_zone, self.settings.log.time_zone
        return named is None or chosen is None or named == zone_text(parse_zone(chosen))


Need = tuple[tuple[str, ...], Callable[[ReplayBasis], bool], str, str]
NEEDS: tuple[Need, ...] = (
    (
        ("prices.layout", "prices.fill_gaps"),
        lambda basis: basis.settings.prices.file is not None,
        "no price file is given",
        "add --prices FILE",
    ),
    (("prices.peak_rule",), ReplayBasis.follows_peak_rule, "the tariff has on-peak hours of its own", "--prices FILE"),
    (
        ("prices.peak_rule", "scheduling.window", "scheduling.max_postponement"),
        ReplayBasis.orders,
        "no policy orders the queue by power",
        "add one: --policy easy,greedy",
    ),
    (
        ("prices.decide_by",),
        lambda basis: basis.is_estimate or basis.orders(),
        "no policy orders the queue by power",
        "add one: --policy easy,greedy",
    ),
    (("scheduling.estimates",), ReplayBasis.plans, "fcfs does not plan with run times", "add --policy easy"),
    (
        ("plan.peak_target", "plan.peak_wait"),
        ReplayBasis.has_demand_charge,
        "the prices have no demand charge",
        "--tariff FILE.toml with [[demand]]",
    ),
    (
        ("plan.peak_wait",),
        lambda basis: basis.is_estimate or basis.settings.plan.peak_target_w is not None,
        "no peak is shaved",
        "add --peak-target 300kW",
    ),
    (
        ("plan.outside_c",),
        lambda basis: basis.settings.plan.facility is not None,
        "cooling is not counted",
        "add --facility air",
    ),
    (
        ("capacity.sla",),
        lambda basis: bool(basis.sleepers() or basis.settings.power.node_class),
        "nodes do not sleep",
        "add --capacity always-on,timeout:10min",
    ),
    (
        tuple(
            name
            for name in BY_NAME
            if name.startswith("capacity.") and name not in ("capacity.policies", "capacity.sla")
        ),
        lambda basis: bool(basis.sleepers()),
        "nodes do not sleep",
        "add --capacity always-on,timeout:10min",
    ),
    (
        ("capacity.min_asleep",),
        ReplayBasis.wakes_without_job,
        "nodes wake for jobs alone, which do not wait for it",
        "add --wake-ahead 10min, or --capacity always-on,forecast:1h",
    ),
    (
        ("capacity.cycle_cost",),
        lambda basis: "priced" in basis.sleepers(),
        "only the capacity policy priced weighs wear",
        "add --capacity always-on,priced",
    ),
    (("power.idle",), ReplayBasis.uses_idle_power, "each node has a power_class in the cluster file", "leave it out"),
    (("power.seed",), ReplayBasis.is_drawn, "nothing is drawn at random", "add --replays 20"),
    (("log.time_zone",), ReplayBasis.lacks_zone, "the log names its time zone", "leave it out"),
)
"""Settings, what they need to have an effect, why they have none without it, and what to do."""


def refuse_unused(given: Collection[str], basis: ReplayBasis) -> None:
    """Raise BadInput for the first of the given settings that changes nothing."""
    for names, is_met, why, hint in NEEDS:
        for name in names:
            if name in given and not is_met(basis):
                raise BadInput(f"{BY_NAME[name].flag} changes nothing: {why}", hint=hint)
