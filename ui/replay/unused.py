"""Refuses options of a replay that cannot change its answer, and says why.

A setting of the file may be there for other commands: only what a user gives with this command is refused.
"""

from collections.abc import Collection

from offpeak.errors import BadInput
from offpeak.model.job_power import PowerClasses, UniformPower, default_power_model, parse_power_model
from offpeak.model.node_class_file import node_class_named
from offpeak.model.zones import parse_zone, zone_text
from offpeak.plugin.priority_bands import has_rights
from offpeak.plugin.window_policy import ARRIVAL
from offpeak.power.capacity.registry import expand_front
from offpeak.prices.tariff_file import is_file, site_tariff
from offpeak.settings.table import BY_NAME, Settings
from offpeak.sim_backend.case.replay_case import is_every_class_named
from offpeak.sim_backend.engine.rules import FCFS
from offpeak.sim_backend.replay.policy import parse_policy
from offpeak.ui.estimate.accounting_source import Accounting, zone_of

FOR_JOBS_ALONE = {"timeout", "energy-aware", "break-even", "priced"}
"""The capacity policies under which a node wakes for a job that is given it."""
OF_SLEEP = tuple(
    name for name in BY_NAME if name.startswith("capacity.") and name not in ("capacity.policies", "capacity.sla")
)


def refuse_unused(
    given: Collection[str], settings: Settings, accounting: Accounting, *, is_repeated: bool, is_estimate: bool = False
) -> None:
    """Raise BadInput for the first of the given settings that changes nothing.

    `is_repeated`: submissions are shifted at random in several replays. An estimate has a peak target of its own, and
    keeps jobs back by what decisions go by.
    """
    prices, power, plan, capacity = settings.prices, settings.power, settings.plan, settings.capacity
    tariff = prices.tariff if prices.tariff is not None and is_file(prices.tariff) else None
    has_demand = tariff is not None and bool(site_tariff(tariff, zone_of(settings.log)).demand)
    has_hours = prices.file is None and tariff is None and prices.decide_by == "price"
    rules = [parse_policy(name, settings.scheduling).rules for name in settings.scheduling.policies]
    orders, backfills = any(rule.policy != ARRIVAL for rule in rules), any(rule.discipline != FCFS for rule in rules)
    sleepers = {name.strip().partition(":")[0] for name in expand_front(capacity.policies)} - {"always-on"}
    may_sleep = bool(sleepers or power.node_class)
    depths = node_class_named(power.node_class).depths if power.node_class else ()
    fails = any(way.failure_probability for depth in depths for way in (depth.enter, depth.leave))
    model = parse_power_model(power.job) if power.job else default_power_model(accounting.trace.jobs)
    is_drawn = is_repeated or fails or isinstance(model, UniformPower | PowerClasses)
    cluster, log_zone, zone = accounting.cluster, accounting.trace.time_zone, settings.log.time_zone
    has_zone = log_zone is not None and zone is not None and log_zone != zone_text(parse_zone(zone))
    for names, is_used, why, hint in (
        (("prices.layout", "prices.fill_gaps"), prices.file is not None, "no price file is given", "add --prices FILE"),
        (("prices.peak_rule",), not has_hours, "the tariff has on-peak hours of its own", "give --prices FILE"),
        (
            ("prices.peak_rule", "scheduling.window", "scheduling.max_postponement"),
            orders,
            "no policy orders the queue by power",
            "add --policy easy,greedy",
        ),
        (
            ("scheduling.priority_band",),
            orders and cluster is not None and has_rights(cluster),
            "no policy changes the order of jobs whose priorities are rights",
            "add --policy easy,greedy, and --cluster FILE with priorities or QOS",
        ),
        (("prices.decide_by",), orders or is_estimate, "no policy uses it", "add --policy easy,greedy"),
        (("scheduling.estimates",), backfills or bool(sleepers), "fcfs plans without run times", "add --policy easy"),
        (
            ("plan.peak_target", "plan.peak_wait"),
            has_demand,
            "the prices have no demand charge",
            "--tariff FILE.toml with [[demand]]",
        ),
        (
            ("plan.peak_wait",),
            is_estimate or plan.peak_target_w is not None,
            "no peak is shaved",
            "add --peak-target 300kW",
        ),
        (("plan.outside_c",), plan.facility is not None, "cooling is not counted", "add --facility air"),
        (("capacity.sla",), may_sleep, "nodes do not sleep", "add --capacity always-on,timeout:10min"),
        (OF_SLEEP, bool(sleepers), "nodes do not sleep", "add --capacity always-on,timeout:10min"),
        (
            ("capacity.min_asleep",),
            capacity.wake_ahead_s or sleepers - FOR_JOBS_ALONE,
            "nodes wake for jobs alone, which do not wait for it",
            "add --wake-ahead 10min, or --capacity always-on,forecast:1h",
        ),
        (
            ("capacity.cycle_cost",),
            "priced" in sleepers,
            "only the capacity policy priced accounts for wear",
            "add --capacity always-on,priced",
        ),
        (
            ("power.idle",),
            not is_every_class_named(cluster),
            "each node has a power_class in the cluster file",
            "leave it out",
        ),
        (("power.seed",), is_drawn, "nothing is drawn at random", "add --replays 20"),
        (("log.time_zone",), not has_zone, f"the log names its time zone, {log_zone}", "leave it out"),
    ):
        for name in names:
            if name in given and not is_used:
                raise BadInput(f"{BY_NAME[name].flag} changes nothing: {why}", hint=hint)
