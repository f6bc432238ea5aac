"""Generates the bundled sample: `python -m benchmarks.sample`. The files are the same each time."""

from dataclasses import replace
from datetime import UTC
from pathlib import Path

from benchmarks.price_model import synthetic_prices, write_series_csv
from benchmarks.sacct_dump import write_sacct
from offpeak.model.jobs import Jobs
from offpeak.settings.replay import SchedulingSettings
from offpeak.sim_backend.replay.equal_nodes import replay
from offpeak.sim_backend.replay.policy import parse_policy
from offpeak.sim_backend.sample import FOLDER, MONDAY, NODES, SAMPLE_LOG, SAMPLE_PRICES, SAMPLE_SACCT, ZONE
from offpeak.sim_backend.traces.swf.write import write_swf
from offpeak_studies.workloads.generate import lublin_jobs

JOBS, LOAD, SEED = 4_500, 0.75, 1
PROCESSORS_PER_NODE = 32
PROJECTS = 8
NOTE = "Generated after Lublin and Feitelson's model by `python -m benchmarks.sample`; no real machine or person."


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
