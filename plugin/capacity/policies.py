"""The capacity policies, each made for a fleet under the settings, and the idle time before each sleep depth.

Names as sites know them: Slurm's SuspendTime, Moab's green pool, the two-level policy of Lawson and Smirni (ICS 2005),
and the energy-aware schedulers of Majanen et al. ("Energy and carbon aware scheduling in supercomputing"), in which an
idle node sleeps at once. `forecast` keeps awake, and wakes ahead, as many idle nodes as are likely to be needed soon.
"""

import math
from dataclasses import replace

import numpy as np

from offpeak.errors import BadInput
from offpeak.model.arrays import Int64
from offpeak.model.constants import J_PER_MWH
from offpeak.model.node_class import NodeClass, break_even_s
from offpeak.model.node_states import DEPTHS
from offpeak.model.units import parse_duration_s
from offpeak.plugin.capacity.port import CapacityPolicy, Fleet
from offpeak.plugin.capacity.rules import BY_IDLE_AGE, BY_NUMBER, BY_WEAR, NEVER, CapacityRules, CapacitySchedule
from offpeak.plugin.capacity.sleepers import STEP_S
from offpeak.settings.capacity import CapacitySettings
from offpeak.text import did_you_mean

DEEPEST = "deepest"


def used_depths(node_class: NodeClass, settings: CapacitySettings) -> tuple[int, ...]:
    """Return the numbers of the depths that the settings name, shallow to deep. Raises BadInput for an absent one."""
    has = tuple(depth.depth for depth in node_class.depths)
    if not has:
        raise BadInput(f"the node class {node_class.name!r} has no sleep depth", hint="add one to its file: [off]")
    return tuple(sorted({_depth_number(name, has, node_class.name) for name in settings.depths}))


def _depth_number(name: str, has: tuple[int, ...], class_name: str) -> int:
    if name == DEEPEST:
        return max(has)
    if name not in DEPTHS:
        raise BadInput(f"unknown sleep depth {name!r}", hint=did_you_mean(name, (*DEPTHS, DEEPEST)))
    if DEPTHS.index(name) not in has:
        known = ", ".join(DEPTHS[depth] for depth in has)
        raise BadInput(f"the node class {class_name!r} has no depth {name!r}", hint=f"it has {known}")
    return DEPTHS.index(name)


def idle_before_depth_s(node_class: NodeClass, depths: tuple[int, ...], idle_s: int) -> Int64:
    """Return the idle time before each depth: the first after `idle_s`, a deeper one when it pays, if that is later."""
    after_s = np.full(len(DEPTHS), NEVER, dtype=np.int64)
    for place, depth in enumerate(depths):
        pays_s = break_even_s(node_class, depth)
        if math.isfinite(pays_s):
            after_s[depth] = max(idle_s, math.ceil(pays_s)) if place else idle_s
    return after_s


def break_even_idle_s(node_class: NodeClass, depths: tuple[int, ...]) -> Int64:
    """Return the idle time from which each depth saves energy. Waiting that long costs at most twice the optimum.

    Source: the ski-rental rule of Karlin et al., "Competitive snoopy caching", Algorithmica 3, 1988.
    """
    after_s = np.full(len(DEPTHS), NEVER, dtype=np.int64)
    for depth in depths:
        pays_s = break_even_s(node_class, depth)
        if math.isfinite(pays_s):
            after_s[depth] = math.ceil(pays_s)
    return after_s


def priced_idle_s(node_class: NodeClass, depths: tuple[int, ...], price_per_mwh: float, cycle_cost: float) -> Int64:
    """Return the idle time from which each depth saves money at a price, a cycle's wear counted in.

    An idle node costs more when electricity is expensive; at a price of zero or less it never pays to sleep.
    """
    after_s = break_even_idle_s(node_class, depths)
    if not price_per_mwh > 0:
        return np.full(len(DEPTHS), NEVER, dtype=np.int64)
    for depth in depths:
        sleep = node_class.find_depth(depth)
        if sleep is None or after_s[depth] == NEVER:
            continue
        saved_per_s = node_class.saved_w(sleep) * price_per_mwh / J_PER_MWH
        longer_s = math.ceil(cycle_cost / saved_per_s) if saved_per_s > 0 else NEVER
        after_s[depth] = NEVER if longer_s > NEVER - after_s[depth] else after_s[depth] + longer_s
    return after_s


ORDERS = {"number": BY_NUMBER, "idle-age": BY_IDLE_AGE, "wear": BY_WEAR}
FROM_THE_BEGINNING = -(1 << 60)
LOAD_STEP = 0.05


def capacity_rules(fleet: Fleet, settings: CapacitySettings, *, on_demand: bool) -> CapacityRules:
    """Return the rules that the settings give every policy."""
    node_class = fleet.node_class
    if settings.keep_hot > fleet.nodes:
        raise BadInput(f"--keep-hot {settings.keep_hot}: the machine has {fleet.nodes} nodes", hint="give fewer")
    depths = used_depths(node_class, settings) if node_class.depths else ()
    highest_wake_w = max((depth.leave.power_w for depth in node_class.depths if depth.depth in depths), default=0.0)
    return CapacityRules(
        on_demand=on_demand,
        low=0,
        raise_for_wide=False,
        period_s=0,
        ahead_s=settings.wake_ahead_s,
        keep_hot=settings.keep_hot,
        sleeps_per_min=_nodes_per_min(
            settings.sleeps_per_min, settings.sleep_ramp_w, node_class.idle_w, "--sleep-ramp"
        ),
        wakes_per_min=_nodes_per_min(settings.wakes_per_min, settings.wake_ramp_w, highest_wake_w, "--wake-ramp"),
        min_awake_s=settings.min_awake_s,
        min_asleep_s=settings.min_asleep_s,
        most_sleeps_per_day=settings.cycles_per_day,
        order=ORDERS[settings.order],
        plan_s=0,
        worth_s=0,
    )


def _nodes_per_min(nodes_per_min: int, ramp_w: float | None, node_w: float, flag: str) -> int:
    """Return the nodes a minute that keep both bounds, 0 for none."""
    if ramp_w is None or node_w <= 0:
        return nodes_per_min
    by_ramp = int(ramp_w // node_w)
    if by_ramp == 0:
        raise BadInput(f"{flag} {ramp_w:g} W a minute allows no node to change", hint=f"one node is {node_w:g} W")
    return min(nodes_per_min, by_ramp) if nodes_per_min else by_ramp


def constant_schedule(fleet: Fleet, after_s: Int64, *, reserve: int = 0) -> CapacitySchedule:
    """Return a schedule that never changes."""
    after_s = after_s.reshape(1, len(DEPTHS))
    return CapacitySchedule(np.array([FROM_THE_BEGINNING]), np.array([fleet.nodes]), np.array([reserve]), after_s)


def _on_demand(
    name: str, fleet: Fleet, settings: CapacitySettings, after_s: Int64, *, reserve: int = 0
) -> CapacityPolicy:
    """Return the policy under which idle nodes sleep after `after_s`, and jobs wake them."""
    schedule = constant_schedule(fleet, after_s, reserve=reserve)
    return CapacityPolicy(name, capacity_rules(fleet, settings, on_demand=True), schedule)


def always_on(fleet: Fleet, settings: CapacitySettings, argument: str) -> CapacityPolicy:
    """No node ever sleeps."""
    _reject_argument("always-on", argument)
    never = np.full(len(DEPTHS), NEVER, dtype=np.int64)
    return _on_demand("always-on", fleet, settings, never)


def timeout(fleet: Fleet, settings: CapacitySettings, argument: str) -> CapacityPolicy:
    """A node that was idle for the time given sleeps; a job that is given it wakes it."""
    idle_s = parse_policy_duration_s("timeout", argument, "10min")
    after_s = idle_before_depth_s(fleet.node_class, used_depths(fleet.node_class, settings), idle_s)
    return _on_demand(f"timeout:{argument or '10min'}", fleet, settings, after_s)


def energy_aware(fleet: Fleet, settings: CapacitySettings, argument: str) -> CapacityPolicy:
    """An idle node sleeps at once."""
    _reject_argument("energy-aware", argument)
    after_s = idle_before_depth_s(fleet.node_class, used_depths(fleet.node_class, settings), 0)
    return _on_demand("energy-aware", fleet, settings, after_s)


def green_pool(fleet: Fleet, settings: CapacitySettings, argument: str) -> CapacityPolicy:
    """So many idle nodes stay ready; any idle node beyond them sleeps at once."""
    pool = _parse_nodes("green-pool", argument or "5%", fleet)
    after_s = idle_before_depth_s(fleet.node_class, used_depths(fleet.node_class, settings), 0)
    return _on_demand(f"green-pool:{argument or '5%'}", fleet, settings, after_s, reserve=pool)


def two_level(fleet: Fleet, settings: CapacitySettings, argument: str) -> CapacityPolicy:
    """All nodes, or only the lower level while that is enough; without a level, the load rounded up a step."""
    low = _parse_nodes("two-level", argument, fleet) if argument else math.ceil(round_load_up(fleet.load) * fleet.nodes)
    if low == 0 and fleet.share is not None and argument.strip("0%"):
        low = 1
    if low == 0:
        raise BadInput(
            f"capacity policy 'two-level': {argument} is not a lower level", hint="one node or more has to stay on"
        )
    after_s = idle_before_depth_s(fleet.node_class, used_depths(fleet.node_class, settings), 0)
    rules = capacity_rules(fleet, settings, on_demand=False)._replace(low=low)
    return CapacityPolicy(f"two-level:{low}", rules, constant_schedule(fleet, after_s))


def round_load_up(load: float) -> float:
    """Return the next multiple of a twentieth above `load`, 1 at the most (Lawson and Smirni, section 3.2)."""
    return min(1.0, round((math.floor(load / LOAD_STEP + 1e-9) + 1) * LOAD_STEP, 2))


def break_even(fleet: Fleet, settings: CapacitySettings, argument: str) -> CapacityPolicy:
    """A node sleeps after the idle time beyond which sleeping has saved energy, and deeper when that pays."""
    _reject_argument("break-even", argument)
    after_s = break_even_idle_s(fleet.node_class, used_depths(fleet.node_class, settings))
    return _on_demand("break-even", fleet, settings, after_s)


def priced(fleet: Fleet, settings: CapacitySettings, argument: str) -> CapacityPolicy:
    """As break-even, in money: sooner when electricity is expensive, never while its price is zero or below."""
    _reject_argument("priced", argument)
    if not len(fleet.price_at_s):
        raise BadInput("the capacity policy 'priced' needs prices", hint="give them with --prices or --tariff")
    depths = used_depths(fleet.node_class, settings)
    rows = [priced_idle_s(fleet.node_class, depths, float(price), settings.cycle_cost) for price in fleet.price_per_mwh]
    at_s = fleet.price_at_s.copy()
    at_s[0] = FROM_THE_BEGINNING
    nodes = np.full(len(at_s), fleet.nodes)
    schedule = CapacitySchedule(at_s, nodes, np.zeros(len(at_s), dtype=np.int64), np.array(rows))
    return CapacityPolicy("priced", capacity_rules(fleet, settings, on_demand=True), schedule)


def _reject_argument(name: str, argument: str) -> None:
    if argument:
        raise BadInput(
            f"the capacity policy {name!r} does not accept a value, but {argument!r} is given", hint=f"write {name}"
        )


def parse_policy_duration_s(name: str, text: str, usual: str) -> int:
    """Return a policy's argument, or the default, in seconds. Raises BadInput if it is no duration."""
    try:
        return parse_duration_s(text or usual)
    except BadInput as problem:
        raise BadInput(f"capacity policy {name!r}: {problem}", hint=f"write it like {name}:{usual}") from None


def _parse_nodes(name: str, text: str, fleet: Fleet) -> int:
    """Return a number of nodes that is given as such or as a share of all in per cent."""
    share = text.endswith("%")
    try:
        value = float(text.removesuffix("%"))
        nodes = math.ceil(fleet.nodes * value / 100) if share else int(text)
    except (ValueError, OverflowError):
        raise BadInput(f"capacity policy {name!r}: {text!r} is not a number of nodes", hint=f"{name}:5 or 5%") from None
    most = fleet.nodes if share or fleet.share is None else fleet.share.total
    if not 0 <= nodes <= most:
        raise BadInput(f"capacity policy {name!r}: {text} of {most} nodes", hint="a number from 0 to all")
    return nodes if share else fleet.part_of(nodes)


DEFAULT_WORTH = "1h"
DEFAULT_PLANNED = "20min"
FIRST_IDLE_S = 600


def forecast(fleet: Fleet, settings: CapacitySettings, argument: str) -> CapacityPolicy:
    """An idle node stays awake where a need of it is likely within the time given, by hour, rank and idle time.

    A need of a narrow job counts up to eleven times that of a node of a very wide one.
    """
    worth_s = parse_policy_duration_s("forecast", argument, DEFAULT_WORTH)
    if worth_s == 0:
        raise BadInput("capacity policy 'forecast': the idle time is zero", hint="energy-aware sleeps at once")
    depths = used_depths(fleet.node_class, settings)
    wake_s = max(depth.leave.duration_s for depth in fleet.node_class.depths if depth.depth in depths)
    ahead_s = max(settings.wake_ahead_s, wake_s)
    rules = capacity_rules(fleet, settings, on_demand=True)._replace(period_s=STEP_S, ahead_s=ahead_s, worth_s=worth_s)
    schedule = constant_schedule(fleet, idle_before_depth_s(fleet.node_class, depths, FIRST_IDLE_S))
    return CapacityPolicy(f"forecast:{argument or DEFAULT_WORTH}", rules, schedule)


def forecast_late(fleet: Fleet, settings: CapacitySettings, argument: str) -> CapacityPolicy:
    """Like forecast, but jobs start on awake nodes only, which a plan of the queue wakes."""
    early = forecast(fleet, settings, argument)
    name = early.name.replace("forecast", "forecast-late")
    return replace(early, name=name, rules=plan_rules(early.rules, fleet, settings))


def planned(fleet: Fleet, settings: CapacitySettings, argument: str) -> CapacityPolicy:
    """Like timeout, but jobs start on awake nodes only, which a plan of the queue wakes."""
    idle_s = parse_policy_duration_s("planned", argument, DEFAULT_PLANNED)
    after_s = idle_before_depth_s(fleet.node_class, used_depths(fleet.node_class, settings), idle_s)
    early = _on_demand(f"planned:{argument or DEFAULT_PLANNED}", fleet, settings, after_s)
    return replace(early, rules=plan_rules(early.rules, fleet, settings))


def plan_rules(rules: CapacityRules, fleet: Fleet, settings: CapacitySettings) -> CapacityRules:
    """Return the rules with a plan of the queue, which keeps an idle node awake if it could not come up in time.

    It keeps it, too, if sleep until then saved nothing.
    """
    depths = used_depths(fleet.node_class, settings)
    used = [depth for depth in fleet.node_class.depths if depth.depth in depths]
    cycle_s = max(depth.enter.duration_s + depth.leave.duration_s for depth in used)
    after_s = break_even_idle_s(fleet.node_class, depths)
    return rules._replace(plan_s=max(1, cycle_s, int(after_s[after_s < NEVER].max(initial=0))), ahead_s=0)
