"""Times as PBS writes them."""

from datetime import UTC, datetime


def ctime(at_s: float) -> str:
    """Return a Unix second as `Fri Nov 20 21:49:35 2026`, by the clock of Greenwich."""
    return datetime.fromtimestamp(at_s, UTC).strftime("%a %b %e %H:%M:%S %Y")


def comment_time(at_s: float) -> str:
    """Return a Unix second as it stands in comments: `Fri Nov 20 at 21:49`."""
    return datetime.fromtimestamp(at_s, UTC).strftime("%a %b %d at %H:%M")


def clock(seconds: float) -> str:
    """Return a duration as HH:MM:SS."""
    whole = int(seconds)
    return f"{whole // 3600:02}:{whole // 60 % 60:02}:{whole % 60:02}"
