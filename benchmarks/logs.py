"""The logs and prices that are measured on: real ones from a `shared` folder beside the repository, else generated."""

from pathlib import Path

from offpeak.model.jobs import Jobs
from offpeak.sim_backend.sample import SAMPLE_PRICES
from offpeak.sim_backend.traces.filters import runnable
from offpeak.sim_backend.traces.swf.read import read_swf
from offpeak_studies.workloads.generate import lublin_jobs

REBUILT = {"KTH-SP2": 100, "SDSC-SP2": 128, "CTC-SP2": 338, "SDSC-BLUE": 1152, "CEA-curie": 80640}
SHARED = Path(__file__).resolve().parents[2] / "shared" / "data"


def trace_file(name: str) -> Path:
    """Return where the log would be."""
    return SHARED / "traces" / f"{name}.swf.gz"


def price_file() -> Path:
    """Return a file of hourly prices: several real years, else the bundled sample."""
    real = SHARED / "prices" / "price_DE-LU_2020-2024_eur_per_mwh.csv.gz"
    return real if real.exists() else SAMPLE_PRICES


def rebuilt_logs() -> tuple[dict[str, tuple[Jobs, int]], str]:
    """Return jobs and machine size by log, and what they are."""
    if not trace_file("KTH-SP2").exists():
        sizes = (128, 256, 512, 1024, 4096)
        return {f"lublin-{size}": (lublin_jobs(50_000, machine_size=size, seed=1, load=0.8), size) for size in sizes}, (
            "five generated logs"
        )
    logs = {name: (runnable(read_swf(trace_file(name)), size)[0], size) for name, size in REBUILT.items()}
    return logs, "the five rebuilt logs"
