"""Make the bundled cap curve of a V100 from the measured sweep: `python -m benchmarks.cap_curves SWEEP.csv`.

The sweep has the speed and the draw of each workload under power caps and locked clocks. The curve takes the power caps
at the full clock, and the locked clocks under a cap of 250 W. There the draw of each locked clock is steady.
"""

import csv
import sys
from collections.abc import Iterator
from pathlib import Path

CURVE = Path(__file__).resolve().parents[1] / "offpeak" / "cap_curves" / "v100.csv"
FULL_CLOCK, FULL_CAP, LOCKED_AT = "1380", "300", "250"
HEAD = """\
# One NVIDIA V100 (300 W) under power caps of 300, 200 and 150 W, then with its clock locked to 945 and 405 MHz.
# Shares of the draw and of the speed without a cap. Measured by D.-A. Constantinescu, S. T. Senator, D. Atienza:
# GridPilot, arXiv 2605.26384, data/v100_cap_clock_sweep.csv (CC BY 4.0). Made by benchmarks/cap_curves.py.
workload,draw share,speed share
"""


def curve_of(sweep: Path) -> str:
    """Return the text of the curve."""
    with sweep.open(encoding="utf-8", newline="") as lines:
        rows = list(csv.DictReader(lines))
    return HEAD + "".join(f"{name},{share:.3f},{speed:.3f}\n" for name, share, speed in _points(rows))


def _points(rows: list[dict[str, str]]) -> Iterator[tuple[str, float, float]]:
    for name in sorted({row["workload"] for row in rows}):
        of_name = [row for row in rows if row["workload"] == name]
        used = [row for row in of_name if (row["sm_target_mhz"] == FULL_CLOCK) != (row["pcap_w"] == LOCKED_AT)]
        (full,) = (row for row in used if (row["sm_target_mhz"], row["pcap_w"]) == (FULL_CLOCK, FULL_CAP))
        shares = [tuple(float(row[key]) / float(full[key]) for key in ("power_mean_w", "iters_per_s")) for row in used]
        yield from ((name, share, speed) for share, speed in sorted(shares))


if __name__ == "__main__":
    CURVE.write_text(curve_of(Path(sys.argv[1])), encoding="utf-8")
