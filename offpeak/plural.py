"""Counts in sentences: "1 job", "2,000 jobs"."""


def counted(count: int, noun: str) -> str:
    """Return the count with its noun, in the plural unless it is one."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"
