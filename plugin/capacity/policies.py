"""The capacity policies that need no simulation: each a value made for a fleet under the settings.

Names as sites know them: Slurm's SuspendTime, Moab's green pool, the two-level policy of Lawson and Smirni (ICS 2005),
and the energy-aware schedulers of Majanen et al. ("Energy and carbon aware scheduling in supercomputing"), in which an
idle node sleeps at once.
"""

import math

import numpy as np

from offpeak.errors import BadInput
from offpeak.model.arrays import Int64
from offpeak.model.node_states import DEPTHS
from offpeak.model.units import parse_duration_s
from offpeak.settings.capacity import CapacitySettings
from plugin.capacity.capacity import Capacity
from plugin.capacity.fleet import Fleet
from plugin.capacity.ladder import break_even_ladder_s, ladder_s, priced_ladder_s, used_depths
from plugin.capacity.rules import BY_IDLE_AGE, BY_NUMBER, BY_WEAR, NEVER, CapacityRules, Course

ORDERS = {"number": BY_NUMBER, "idle-age": BY_IDLE_AGE, "wear": BY_WEAR}
FROM_THE_BEGINNING = -(1 << 60)
LOAD_STEP = 0.05


def rules_of(fleet: Fleet, settings: CapacitySettings, *, on_demand: bool) -> CapacityRules:
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
        sleeps_per_min=_rate(settings.sleeps_per_min, settings.sleep_ramp_w, node_class.idle_w, "--sleep-ramp"),
        wakes_per_min=_rate(settings.wakes_per_min, settings.wake_ramp_w, highest_wake_w, "--wake-ramp"),
        min_awake_s=settings.min_awake_s,
        min_asleep_s=settings.min_asleep_s,
        most_sleeps_per_day=settings.cycles_per_day,
        order=ORDERS[settings.order],
        late=False,
        worth_s=0,
    )


def _rate(nodes_per_min: int, ramp_w: float | None, node_w: float, flag: str) -> int:
    """Return the nodes a minute that keep both bounds, 0 for none."""
    if ramp_w is None or node_w <= 0:
        return nodes_per_min
    by_ramp = int(ramp_w // node_w)
    if by_ramp == 0:
        raise BadInput(f"{flag} {ramp_w:g} W a minute lets no node change", hint=f"one node is {node_w:g} W")
    return min(nodes_per_min, by_ramp) if nodes_per_min else by_ramp


def steady(fleet: Fleet, after_s: Int64, *, target: int | None = None, reserve: int = 0) -> Course:
    """Return a course that stays the same."""
    return Course(
        np.array([FROM_THE_BEGINNING]),
        np.array([fleet.nodes if target is None else target]),
        np.array([reserve]),
        after_s.reshape(1, len(DEPTHS)),
    )


def always_on(fleet: Fleet, settings: CapacitySettings, argument: str) -> Capacity:
    """No node ever sleeps."""
    _takes_nothing("always-on", argument)
    never = np.full(len(DEPTHS), NEVER, dtype=np.int64)
    return Capacity("always-on", rules_of(fleet, settings, on_demand=True), steady(fleet, never))


def timeout(fleet: Fleet, settings: CapacitySettings, argument: str) -> Capacity:
    """A node that was idle for the time given sleeps; a job that is given it wakes it."""
    idle_s = duration_s("timeout", argument, "10min")
    after_s = ladder_s(fleet.node_class, used_depths(fleet.node_class, settings), idle_s)
    name = f"timeout:{argument or '10min'}"
    return Capacity(name, rules_of(fleet, settings, on_demand=True), steady(fleet, after_s))


def energy_aware(fleet: Fleet, settings: CapacitySettings, argument: str) -> Capacity:
    """An idle node sleeps at once."""
    _takes_nothing("energy-aware", argument)
    after_s = ladder_s(fleet.node_class, used_depths(fleet.node_class, settings), 0)
    return Capacity("energy-aware", rules_of(fleet, settings, on_demand=True), steady(fleet, after_s))


def green_pool(fleet: Fleet, settings: CapacitySettings, argument: str) -> Capacity:
    """So many idle nodes stay ready; any idle node beyond them sleeps at once."""
    pool = _nodes("green-pool", argument or "5%", fleet)
    after_s = ladder_s(fleet.node_class, used_depths(fleet.node_class, settings), 0)
    name = f"green-pool:{argument or '5%'}"
    return Capacity(name, rules_of(fleet, settings, on_demand=True), steady(fleet, after_s, reserve=pool))


def two_level(fleet: Fleet, settings: CapacitySettings, argument: str) -> Capacity:
    """All nodes, or only the lower level while that is enough; without a level, the load rounded up a step."""
    low = _nodes("two-level", argument, fleet) if argument else math.ceil(stepped(fleet.load) * fleet.nodes)
    if low == 0:
        raise BadInput(
            f"capacity policy 'two-level': {argument} is no lower level", hint="one node or more has to stay on"
        )
    after_s = ladder_s(fleet.node_class, used_depths(fleet.node_class, settings), 0)
    rules = rules_of(fleet, settings, on_demand=False)._replace(low=low)
    return Capacity(f"two-level:{low}", rules, steady(fleet, after_s))


def stepped(load: float) -> float:
    """Return the next multiple of a twentieth above `load`, 1 at the most (Lawson and Smirni, section 3.2)."""
    return min(1.0, round((math.floor(load / LOAD_STEP + 1e-9) + 1) * LOAD_STEP, 2))


def break_even(fleet: Fleet, settings: CapacitySettings, argument: str) -> Capacity:
    """A node sleeps after the idle time beyond which sleeping has saved energy, and deeper when that pays."""
    _takes_nothing("break-even", argument)
    after_s = break_even_ladder_s(fleet.node_class, used_depths(fleet.node_class, settings))
    return Capacity("break-even", rules_of(fleet, settings, on_demand=True), steady(fleet, after_s))


def priced(fleet: Fleet, settings: CapacitySettings, argument: str) -> Capacity:
    """As break-even, in money: sooner when electricity is dear, never while its price is zero or below."""
    _takes_nothing("priced", argument)
    if not len(fleet.price_at_s):
        raise BadInput("the capacity policy 'priced' needs prices", hint="give them with --prices or --tariff")
    depths = used_depths(fleet.node_class, settings)
    rows = [
        priced_ladder_s(fleet.node_class, depths, float(price), settings.cycle_cost) for price in fleet.price_per_mwh
    ]
    at_s = fleet.price_at_s.copy()
    at_s[0] = FROM_THE_BEGINNING
    nodes = np.full(len(at_s), fleet.nodes)
    course = Course(at_s, nodes, np.zeros(len(at_s), dtype=np.int64), np.array(rows))
    return Capacity("priced", rules_of(fleet, settings, on_demand=True), course)


def _takes_nothing(name: str, argument: str) -> None:
    if argument:
        raise BadInput(f"the capacity policy {name!r} takes no value, but {argument!r} is given", hint=f"write {name}")


def duration_s(name: str, text: str, usual: str) -> int:
    """Return a policy's argument, or what is usual where none is given, in seconds; BadInput if it is no duration."""
    try:
        return parse_duration_s(text or usual)
    except BadInput as problem:
        raise BadInput(f"capacity policy {name!r}: {problem}", hint=f"write it like {name}:{usual}") from None


def _nodes(name: str, text: str, fleet: Fleet) -> int:
    """Return a number of nodes that is given as such or as a share of all in per cent."""
    share = text.endswith("%")
    try:
        value = float(text.removesuffix("%"))
        nodes = math.ceil(fleet.nodes * value / 100) if share else int(text)
    except (ValueError, OverflowError):
        raise BadInput(f"capacity policy {name!r}: {text!r} is no number of nodes", hint=f"{name}:5 or 5%") from None
    if not 0 <= nodes <= fleet.nodes:
        raise BadInput(f"capacity policy {name!r}: {text} of {fleet.nodes} nodes", hint="a number from 0 to all")
    return nodes
