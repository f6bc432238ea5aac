"""Durations as people read them off a clock."""


def clock_text(duration_s: float) -> str:
    """Return the seconds as "2:05:09" (hours, minutes, seconds), from two days on as "3d 07:12"."""
    minutes, seconds = divmod(round(duration_s), 60)
    hours, minutes = divmod(minutes, 60)
    if hours < 48:
        return f"{hours}:{minutes:02}:{seconds:02}"
    return f"{hours // 24}d {hours % 24:02}:{minutes:02}"
