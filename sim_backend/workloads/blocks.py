"""Long columns are drawn a piece at a time, which bounds the memory for intermediate results."""

BLOCK = 1 << 18


def blocks(count: int) -> list[slice]:
    """Cut 0..count into slices of at most BLOCK."""
    return [slice(start, min(start + BLOCK, count)) for start in range(0, count, BLOCK)]
