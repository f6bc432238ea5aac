"""Watts as people read them."""


def power_text(power_w: float | None) -> str:
    """Return watts, kilowatts and megawatts from ten of them on; "no value" for None."""
    if power_w is None:
        return "no value"
    if power_w >= 10_000_000:
        return f"{power_w / 1e6:,.2f} MW"
    return f"{power_w:,.0f} W" if power_w < 10_000 else f"{power_w / 1000:,.2f} kW"
