"""The policies that choose sites, by name."""

from collections.abc import Callable
from dataclasses import dataclass

from offpeak.errors import BadInput
from offpeak.text import did_you_mean
from plugin.federation.cycle import GridCycle, GridDecision
from plugin.federation.metaschedule import inst, mcmf, two_price
from plugin.federation.one_by_one import baseline, eca_queue, eca_sla, fastest_possible, round_robin


@dataclass(frozen=True)
class GridPolicy:
    """A policy: `decide` is a pure function of a cycle; `doc` is one line of help."""

    name: str
    decide: Callable[[GridCycle], GridDecision]
    doc: str


POLICIES = (
    GridPolicy("baseline", baseline, "every job stays at home"),
    GridPolicy("round-robin", round_robin, "the next site by turns"),
    GridPolicy("fastest", fastest_possible, "idle units and no queue, else the least estimated wait"),
    GridPolicy("eca-queue", eca_queue, "least CO2, energy or cost among sites with a short queue"),
    GridPolicy("eca-sla", eca_sla, "least CO2, energy or cost among sites in time; without a latest finish, fastest"),
    GridPolicy("mcmf", mcmf, "all jobs of a cycle at once: least weighted response time, cost, CO2 and energy"),
    GridPolicy("inst", inst, "as mcmf, as if no job ever waited"),
    GridPolicy("two-price", two_price, "as mcmf, with an expensive and a cheap half of the day"),
)


def grid_policy(name: str) -> GridPolicy:
    """Return the policy of that name; BadInput if there is none."""
    found = next((policy for policy in POLICIES if policy.name == name), None)
    if found is None:
        raise BadInput(f"unknown grid policy {name!r}", hint=did_you_mean(name, [each.name for each in POLICIES]))
    return found
