"""Print `offpeak forecast price`: the price of each step with its range and its basis."""

import json
import time
from datetime import UTC, datetime, tzinfo

import numpy as np
import typer

from offpeak.display import figure
from offpeak.errors import BadPrices
from offpeak.model.constants import HOUR_S
from offpeak.model.time_range import parse_time
from offpeak.model.zones import date_text, zone_text
from offpeak.predictors.feeds.port import Window
from offpeak.predictors.price_forecast import PriceForecast, forecast_prices
from offpeak.predictors.site_sources import build_price_source, check_libraries
from offpeak.prices.tariff import NO_PRICES
from offpeak.settings.replay import FeedSettings
from offpeak.settings.table import Settings
from offpeak.ui.forecast.known_prices import sparkline
from offpeak.ui.terminal import TextTable, plain_console, print_table, text_table

HINT = "--zone DE-LU forecasts a market's, --prices FILE your own; --tariff RULE is known without a forecast"


def answer(settings: Settings, from_text: str | None, hours: int, *, as_json: bool) -> None:
    """Print the prices of so many hours, from now on if no time is given."""
    check_libraries(settings.feeds)
    source, zone = build_price_source(settings.feeds, settings.prices)
    now_s = int(time.time())
    from_s = int(parse_time(from_text or "now", now_unix_s=now_s, zone=zone)) // HOUR_S * HOUR_S
    if source.is_tariff and settings.prices.tariff is None:
        raise BadPrices("no prices are set, so there is nothing to forecast", hint=HINT)
    forecast = forecast_prices(source, Window(from_s, from_s + hours * HOUR_S), now_s)
    if as_json:
        typer.echo(forecast_json(forecast, settings.feeds))
    else:
        console = plain_console()
        clock = zone_text(zone) or "this machine"
        bases = set(forecast.prediction.basis)
        range_ = "known from the tariff, not forecast" if source.is_tariff else "80 % lie within the range"
        if not source.is_tariff and bases == {source.tariff.basis}:
            range_ = f"no price for that time is known or can be forecast: {source.tariff.basis}"
        console.print(f"{settings.feeds.zone or 'prices'}: {forecast.unit}, clock of {clock}; {range_}")
        if source.tariff.basis in bases:
            # Prices are given, though none for that time.
            assumed = source.tariff.assumed
            if assumed == NO_PRICES and not source.is_tariff:
                assumed = "assumed, as the known prices do not reach"
            console.print(f"{source.tariff.description} ({assumed})" if assumed else source.tariff.description)
        console.print()
        print_table(_table(forecast, zone))
        console.print()
        console.print(f"course: {sparkline(forecast.prediction.point, forecast.prediction.point)}")
        if (origin := forecast.origin) is not None:
            days = f"learned from {date_text(origin.first_s, UTC)} to {date_text(origin.last_s, UTC)}"
            error = f"; mean error a day ahead, recently: {origin.mae:.2f} {forecast.unit}"
            console.print(days if np.isnan(origin.mae) else f"{days}{error}")
        for problem in forecast.problems:
            console.print(f"- {problem}; {problem.hint}")
        if source.contract:
            typer.echo(
                f"\nThese are prices of the market; `offpeak prices` charges the known ones by {source.contract.text}."
            )


def _table(forecast: PriceForecast, zone: tzinfo) -> TextTable:
    lines, last_basis = [], ""
    rows = zip(_start_s(forecast), forecast.prediction.point, forecast.prediction.quantiles, strict=True)
    for (start_s, point, quantile), basis in zip(rows, forecast.prediction.basis, strict=True):
        at = datetime.fromtimestamp(start_s, UTC).astimezone(zone)
        # What is known has no range: one of no width would look like a very sure forecast.
        bounds = (quantile[0], quantile[-1]) if is_forecast(basis) else ()
        figures = [figure(float(bound)) for bound in (point, *bounds)] + [""] * (2 - len(bounds))
        lines.append((f"{at:%a %Y-%m-%d %H:%M}", *figures, basis if basis != last_basis else ""))
        last_basis = basis
    return text_table(("from", "price", "lowest", "highest", "based on"), lines, texts=(0, 4))


def is_forecast(basis: str) -> bool:
    """Return whether a price with this basis is forecast, and not known."""
    return basis.startswith("forecast")


def forecast_json(forecast: PriceForecast, feeds: FeedSettings) -> str:
    """Return the forecast as a JSON object, the levels of the quantiles in the keys."""
    prediction = forecast.prediction
    steps = zip(
        _start_s(forecast), prediction.point, prediction.mean, prediction.quantiles, prediction.basis, strict=True
    )
    document = {
        "zone": feeds.zone,
        "unit": forecast.unit,
        "step_s": forecast.steps.step_s,
        "prices": [
            {"from_s": start_s, "price": float(point), "mean": float(mean),
             "p10": float(low), "p50": float(middle), "p90": float(high), "basis": basis,
             "is_forecast": is_forecast(basis)}
            for start_s, point, mean, (low, middle, high), basis in steps
        ],
        "troubles": [
            {"source": problem.source, "condition": problem.condition, "detail": problem.detail, "hint": problem.hint}
            for problem in forecast.problems
        ],
    }  # fmt: skip
    return json.dumps(document, indent=2)


def _start_s(forecast: PriceForecast) -> list[int]:
    steps = forecast.steps
    return list(range(steps.start_s, steps.end_s, steps.step_s))
