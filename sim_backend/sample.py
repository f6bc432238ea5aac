"""The bundled sample: three months of a cluster's jobs, as SWF and as Slurm's accounting, and a year of prices.

All of it is generated, by `python -m benchmarks.sample` in a clone of the repository.
"""

from datetime import datetime
from pathlib import Path
from zoneinfo import ZoneInfo

FOLDER = Path(__file__).with_name("sample")
SAMPLE_LOG = FOLDER / "sample.swf.gz"
SAMPLE_SACCT = FOLDER / "sample_sacct.txt.gz"
SAMPLE_PRICES = FOLDER / "sample_prices_eur_per_mwh.csv.gz"

NODES = 128
ZONE = "Europe/Berlin"
MONDAY = datetime(2023, 4, 3, tzinfo=ZoneInfo(ZONE))
"""The day on which the jobs begin."""
