"""The bundled sample: three months of a 128-node cluster's job log, and a year of prices. Both are generated."""

from datetime import datetime
from pathlib import Path
from zoneinfo import ZoneInfo

from offpeak.prices.file import write_series_csv
from sim_backend.traces.swf.write import write_swf
from sim_backend.workloads.lublin import lublin_jobs
from sim_backend.workloads.price_model import synthetic_prices

FOLDER = Path(__file__).with_name("sample")
SAMPLE_LOG = FOLDER / "sample.swf.gz"
SAMPLE_PRICES = FOLDER / "sample_prices_eur_per_mwh.csv.gz"

JOBS, NODES, LOAD, SEED = 4_500, 128, 0.75, 1
ZONE = "Europe/Berlin"
MONDAY = datetime(2023, 4, 3, tzinfo=ZoneInfo(ZONE))
NOTE = "Generated after Lublin and Feitelson's model by `python -m sim_backend.sample`; no real machine or person."


def make_sample(folder: Path = FOLDER) -> None:
    """Write the sample's two files into `folder`; the same bytes each time. CannotWrite if it fails."""
    jobs = lublin_jobs(JOBS, machine_size=NODES, seed=SEED, load=LOAD)
    start_s = int(MONDAY.timestamp())
    write_swf(jobs, folder / SAMPLE_LOG.name, processors=NODES, unix_start_s=start_s, zone=ZONE, notes=(NOTE,))
    write_series_csv(synthetic_prices(MONDAY.year, seed=SEED, zone=ZONE), folder / SAMPLE_PRICES.name)


if __name__ == "__main__":
    make_sample()
