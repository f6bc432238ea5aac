"""What `offpeak estimate` does: finds the accounting, replays it often, and says what came of it."""

import typer

from offpeak.errors import BadInput
from offpeak.settings.table import Settings
from power.capacity.levers import LEVERS, REPLAYS, Lever, measure_levers
from sim_backend.estimate import MOST_REPLAYS, SavingsEstimate, estimate_savings
from sim_backend.policy import Policy, parse_policy
from ui.estimate.accounting_source import accounting_of, with_nodes
from ui.estimate.as_json import estimate_json
from ui.estimate.command import DAYS, Request
from ui.estimate.text import print_estimate
from ui.progress import repeat_progress


def answer(settings: Settings, request: Request) -> None:
    """Print the estimate of the accounting that is asked for; BadInput with fewer than two policies."""
    policies = tuple(parse_policy(name, settings.scheduling) for name in settings.scheduling.policies)
    if len(policies) < 2:
        raise BadInput("an estimate needs a baseline and another policy", hint="--policy easy,greedy")
    accounting = accounting_of(request.log, request.days or DAYS, settings, lenient=request.lenient)
    with repeat_progress(request.replays or MOST_REPLAYS) as progress:
        estimate = estimate_savings(
            accounting.trace,
            with_nodes(settings, accounting),
            policies,
            days=request.days,
            replays=request.replays,
            progress=progress,
        )
    measured = _levers(estimate, settings, policies[0]) if request.levers else ()
    if request.as_json:
        typer.echo(estimate_json(estimate, measured))
    else:
        print_estimate(estimate, measured)


def _levers(estimate: SavingsEstimate, settings: Settings, baseline: Policy) -> tuple[Lever, ...]:
    with repeat_progress(len(LEVERS) * REPLAYS) as progress:
        return measure_levers(estimate, settings, baseline, progress=progress)
