"""What `offpeak prices` answers: asks the feed that the settings name, and prints or draws what is known."""

import time
from datetime import date, datetime, tzinfo

import numpy as np
import typer

from offpeak.errors import BadInput, BadPrices
from offpeak.model.local_time import DAY_S, local_days, machine_zone, to_unix_s
from offpeak.prices.alignment import parse_start
from offpeak.prices.tariff import site_tariff
from offpeak.settings.table import Settings
from predictors.feeds.port import INCOMPLETE, Window
from predictors.site_sources import build_price_feed, check_libraries
from ui.prices.as_json import prices_json
from ui.prices.command import Request
from ui.prices.plot import check_plot, write_plot
from ui.prices.text import KnownPrices, print_prices
from ui.progress import say_written

SHOWN_DAYS = 2


def answer(settings: Settings, request: Request) -> None:
    """Print the known prices; BadPrices if there is none in that time."""
    if request.plot:
        check_plot(request.plot)
    check_libraries(settings.feeds)
    feed = build_price_feed(settings.feeds, settings.prices)
    zone = feed.clock if settings.feeds.zone else machine_zone()
    window = window_of(request, int(time.time()), zone)
    known = feed.known(window, int(time.time()))
    if known.series is None:
        said = "; ".join(str(trouble) for trouble in known.troubles)
        hints = [trouble.hint for trouble in known.troubles if trouble.condition not in INCOMPLETE]
        hint = hints[0] if hints else "--from and --to ask for another time"
        raise BadPrices(f"no price is known of that time: {said}", hint=hint)
    prices = KnownPrices(
        settings.feeds.zone, window, zone, known, known.series, site_tariff(settings.prices.tariff, feed.clock)
    )
    if request.plot:
        write_plot(prices, request.plot)
    if request.as_json:
        typer.echo(prices_json(prices))
    else:
        print_prices(prices)
    if request.plot:
        say_written(request.plot, as_json=request.as_json)


def window_of(request: Request, now_s: int, zone: tzinfo) -> Window:
    """Return the time that is asked for; BadInput unless it is one."""
    from_s = instant_of(request.from_text, zone) if request.from_text else _midnight_s(now_s, zone)
    until_s = instant_of(request.to_text, zone) if request.to_text else _midnight_s(from_s, zone, SHOWN_DAYS)
    if until_s <= from_s:
        raise BadInput("--to is not after --from", hint="--to 2026-01-03 is the end of 2 January")
    return Window(from_s, until_s)


def instant_of(text: str, zone: tzinfo) -> int:
    """Return the instant [Unix s] of a date, its first midnight, or of a date and time; BadInput if it is neither."""
    start = parse_start(text, zone)
    if isinstance(start, datetime):
        return int(start.timestamp())
    return _midnights_s(np.array([(start - date(1970, 1, 1)).days]), zone)[0]


def _midnight_s(unix_s: int, zone: tzinfo, days_on: int = 0) -> int:
    """Return the last midnight up to an instant, or so many days after it."""
    days = local_days(unix_s, unix_s + (days_on + 1) * DAY_S, zone)
    midnights = _midnights_s(days, zone)
    today = max(at for at, midnight_s in enumerate(midnights) if midnight_s <= unix_s)
    return midnights[today + days_on]


def _midnights_s(local_day: np.ndarray, zone: tzinfo) -> list[int]:
    unix_s, _ = to_unix_s(local_day.astype(np.int64) * DAY_S, zone)
    return [int(each) for each in unix_s]
