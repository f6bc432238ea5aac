"""The profile over the prices as a capacity policy: planned anew each period, its present interval applied."""

from dataclasses import dataclass

from offpeak.errors import BadInput
from offpeak.model.snapshot import Snapshot
from offpeak.settings.capacity import CapacitySettings
from plugin.capacity.policies import constant_schedule
from plugin.capacity.port import CapacityPolicy, CapacityTargets, Fleet
from power.cheapest_profile import cheapest_profile
from power.period_and_sla import DEFAULT_PERIOD, period_and_sla
from power.power_terms import PowerTerms, terms_of
from power.price_profile import prices_ahead


@dataclass(frozen=True, eq=False)
class PriceProfile:
    """Decides by the cheapest profile of the coming day that keeps the SLA in the what-if."""

    fleet: Fleet
    terms: PowerTerms
    sla: float
    period_s: int

    def __call__(self, snapshot: Snapshot) -> CapacityTargets:
        """Return the nodes that the profile offers in the interval in which the middle of the coming period lies."""
        prices = prices_ahead(self.fleet, snapshot.now_s)
        present = prices.interval_at(snapshot.now_s + self.period_s // 2)
        if not prices.is_dear[present]:
            return CapacityTargets(self.fleet.nodes)
        profile = cheapest_profile(snapshot, prices, self.terms, sla=self.sla).plan.profile
        awake = int(profile.units[present]) // snapshot.units_per_node
        why = f"{awake} nodes in a dear hour: {prices.per_mwh[present]:.0f} /MWh, {prices.mean:.0f} on average"
        return CapacityTargets(awake, why=why)


def price_profile(fleet: Fleet, settings: CapacitySettings, argument: str) -> CapacityPolicy:
    """Fewer nodes in dear hours, as the slowdown SLA allows in a simulation of the known jobs, planned each period.

    The argument is the period, and perhaps an SLA other than that of the settings: "1h", "1h:5". BadInput without
    prices.
    """
    if not len(fleet.price_at_s):
        raise BadInput("the capacity policy 'profile' needs prices", hint="give them with --prices or --tariff")
    period_s, sla = period_and_sla("profile", argument, settings.sla)
    terms = terms_of(fleet, settings)
    rules = terms.capacity._replace(period_s=period_s)
    decide = PriceProfile(fleet, terms, sla, period_s)
    return CapacityPolicy(
        f"profile:{argument or DEFAULT_PERIOD}", rules, constant_schedule(fleet, terms.after_s), decide
    )
