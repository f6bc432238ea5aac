"""A bill of a year in quarter-hours, with windows and a demand charge: its time, and its difference to one by hand.

The German example of the documentation, on a load that is 100 kW with three higher quarter-hours.
"""

import argparse
import statistics
import time
from datetime import datetime
from pathlib import Path

import numpy as np

from offpeak.prices.bill import make_bill
from offpeak.prices.tariff_file import site_tariff

EXAMPLE = Path(__file__).parents[1] / "docs" / "examples" / "tariff-de.toml"
HIGH_KWH, LOW_KWH, PEAK_KW = 251 * 16 * 100 + 35 + 175 + 175, (8760 - 251 * 16) * 100 + 175, 240
"""251 working days of 16 high hours in 2026, and what three quarter-hours of a high and one of a low hour add."""


def main() -> None:
    """Print the difference and the time."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeat", type=int, default=20)
    repeat = parser.parse_args().repeat
    tariff = site_tariff(str(EXAMPLE))
    zone = tariff.calendar.zone
    from_s, until_s = (int(datetime(year, 1, 1, tzinfo=zone).timestamp()) for year in (2026, 2027))
    start_s = np.arange(from_s, until_s, 900)
    kwh = np.full(len(start_s), 25.0)
    for when, value in (("02-02T19:15", 60), ("02-02T19:30", 200), ("07-01T09:00", 200), ("12-25T09:00", 200)):
        at_s = datetime.fromisoformat(f"2026-{when}").replace(tzinfo=zone).timestamp()
        kwh[np.searchsorted(start_s, at_s)] = value
    took_ms = []
    for _ in range(repeat):
        began_s = time.perf_counter()
        bill = make_bill(tariff, start_s, kwh)
        took_ms.append(1e3 * (time.perf_counter() - began_s))
    total_kwh = HIGH_KWH + LOW_KWH
    parts = (
        HIGH_KWH * 0.118,
        LOW_KWH * 0.094,
        total_kwh * 0.0121,
        total_kwh * 0.0205,
        total_kwh * 0.0011,
        PEAK_KW * 120,
    )
    net = sum(round(part, 2) for part in parts)
    by_hand = round(net + round(net * 0.19, 2), 2)
    print(f"bill {bill.total:,.2f} {bill.currency}, by hand {by_hand:,.2f}, difference {bill.total - by_hand:.2f}")
    print(f"{len(start_s):,} quarter-hours: median {statistics.median(took_ms):.1f} ms, longest {max(took_ms):.1f} ms")


if __name__ == "__main__":
    main()
