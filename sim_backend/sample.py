"""The bundled sample: three months of a cluster's jobs, as SWF and as Slurm's accounting, and a year of prices.

All of it is generated.
"""

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from zoneinfo import ZoneInfo

from offpeak.model.jobs import Jobs
from offpeak.prices.file import write_series_csv
from offpeak.settings.replay import SchedulingSettings
from sim_backend.replay.policy import parse_policy
from sim_backend.replay.schedule import replay
from sim_backend.traces.slurm.write import write_sacct
from sim_backend.traces.swf.write import write_swf
from sim_backend.workloads.generate import lublin_jobs
from sim_backend.workloads.price_model import synthetic_prices

FOLDER = Path(__file__).with_name("sample")
SAMPLE_LOG = FOLDER / "sample.swf.gz"
SAMPLE_SACCT = FOLDER / "sample_sacct.txt.gz"
SAMPLE_PRICES = FOLDER / "sample_prices_eur_per_mwh.csv.gz"

JOBS, NODES, LOAD, SEED = 4_500, 128, 0.75, 1
PROCESSORS_PER_NODE = 32
PROJECTS = 8
ZONE = "Europe/Berlin"
MONDAY = datetime(2023, 4, 3, tzinfo=ZoneInfo(ZONE))
NOTE = "Generated after Lublin and Feitelson's model by `python -m sim_backend.sample`; no real machine or person."


def make_sample(folder: Path = FOLDER) -> None:
    """Write the sample's files into `folder`; the same bytes each time. Raises CannotWrite if it fails."""
    jobs = lublin_jobs(JOBS, machine_size=NODES, seed=SEED, load=LOAD)
    start_s = int(MONDAY.timestamp())
    write_swf(jobs, folder / SAMPLE_LOG.name, processors=NODES, unix_start_s=start_s, zone=ZONE, notes=(NOTE,))
    write_sacct(
        accounted(jobs),
        folder / SAMPLE_SACCT.name,
        unix_start_s=start_s,
        zone=MONDAY.tzinfo or UTC,
        processors_per_node=PROCESSORS_PER_NODE,
    )
    write_series_csv(synthetic_prices(MONDAY.year, seed=SEED, zone=ZONE), folder / SAMPLE_PRICES.name)


def accounted(jobs: Jobs) -> Jobs:
    """Return the jobs as Slurm's books would have them: started by EASY, each user with a project and a program."""
    easy = parse_policy("easy", SchedulingSettings())
    schedule = replay(jobs, jobs.node_power_w, machine_size=NODES, policy=easy)
    return replace(jobs, logged_start_s=schedule.start_s, group=jobs.user % PROJECTS, application=jobs.user)


if __name__ == "__main__":
    make_sample()
