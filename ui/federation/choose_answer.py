"""Print `offpeak choose`: the choice of the running broker, else a choice of its own."""

import json
from typing import Any

import typer

from offpeak.settings.broker import BrokerSettings
from offpeak.settings.table import Settings
from services.broker.client import fetch_choice
from ui.federation.job import JobFile


def print_choice(settings: Settings, job: JobFile, *, as_json: bool) -> None:
    """Print the best site for the job; exit 1 if no site can run it."""
    choice = fetch_choice(settings.agent.state_folder, _broker_query(settings.broker, job))
    if choice is None:
        # Slow to import: numpy and the site selection.
        from ui.federation.own_choice import choose_without_broker

        choice = choose_without_broker(settings, job)
    typer.echo(json.dumps(choice, indent=2) if as_json else choice_text(choice))
    if choice["site"] is None:
        raise typer.Exit(1)


def choice_text(choice: dict[str, Any]) -> str:
    """Return a choice as text: the site and the reason, the second best, and what other sites lack."""
    lines = [
        f"{choice['site']}: {choice['reason']}" if choice["site"] or not choice["misses"] else "no site can run it"
    ]
    for name in ("expected", "second"):
        if each := choice[name]:
            place = each.get("site", choice["site"])
            lines.append(f"  {place}: {figures_text(each)}")
    lines += [f"- {site}: {text}" for site, text in choice["misses"].items()]
    return "\n".join(lines)


def figures_text(expected: dict[str, Any]) -> str:
    """Return the expected start, end, cost, CO2 and energy at a site in one line."""
    cost = f"{expected['cost']:,.2f} {expected['currency']}, {expected['co2_kg']:,.2f} kg CO2"
    return f"{expected['starts']} to {expected['ends']}, {cost}, {expected['energy_kwh']:,.1f} kWh"


def _broker_query(settings: BrokerSettings, job: JobFile) -> dict[str, Any]:
    """Return the request to a broker, which must use the same file of sites."""
    wanted = {key: value for key, value in vars(job).items() if key != "name"}
    return {"sites": str(settings.sites.resolve()), "stale_s": settings.stale_s, **wanted}
