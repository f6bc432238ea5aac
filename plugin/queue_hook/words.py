"""The reasons of the queue hook in words that an operator and a user can read."""

from datetime import datetime, timedelta, tzinfo

from offpeak.prices.peak import Peak

PEAK_WORDS = {Peak.ON_PEAK: "on-peak", Peak.OFF_PEAK: "off-peak", Peak.UNKNOWN: "no price is known"}
NEAR = timedelta(days=6)


def clock(at_s: int, now_s: int, zone: tzinfo) -> str:
    """Return the local time: 21:00 today, Sun 06:00 this week, else with its date."""
    at, now = (datetime.fromtimestamp(each, zone) for each in (at_s, now_s))
    if at.date() == now.date():
        return f"{at:%H:%M}"
    return f"{at:%a %H:%M}" if timedelta(0) < at - now < NEAR else f"{at:%Y-%m-%d %H:%M}"


def peak_text(peak: Peak, until_s: int | None, now_s: int, zone: tzinfo) -> str:
    """Return the price's state and until when it lasts."""
    return PEAK_WORDS[peak] if until_s is None else f"{PEAK_WORDS[peak]} until {clock(until_s, now_s, zone)}"


def instant(at_s: int, zone: tzinfo) -> str:
    """Return a local time that reads the same on every day: 2026-11-22 02:00."""
    return f"{datetime.fromtimestamp(at_s, zone):%Y-%m-%d %H:%M}"
