"""Figures and periods as people read them, and how wide a table may be that nobody's terminal holds."""

from offpeak.plural import counted

NOT_WRAPPED = 1000
"""Width of what goes into a pipe: lines of any length stay whole."""

WITH_CENTS_BELOW = 10_000
HOURS_BELOW_S = 2 * 86_400
MINUTES_BELOW_S = 3600


def figure(value: float) -> str:
    """Return money or energy with cents, a large one without."""
    return f"{value:z,.2f}" if abs(value) < WITH_CENTS_BELOW else f"{value:,.0f}"


def length_text(length_s: int) -> str:
    """Return a period in whole days, a short one in hours, a very short one in minutes."""
    if length_s < MINUTES_BELOW_S:
        return counted(round(length_s / 60), "minute")
    return counted(round(length_s / 3600), "hour") if length_s < HOURS_BELOW_S else f"{length_s / 86_400:,.0f} days"
