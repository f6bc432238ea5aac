"""A folder of made prices and sites, as the study wants it."""

from pathlib import Path

import numpy as np

from offpeak_studies.day_ahead.inputs import places
from offpeak_studies.day_ahead.run import SHARES

CORES = {"Blacklight": 256, "Gordon": 512}


def write_folder(folder: Path) -> Path:
    """Write eight small sites in two places and their June."""
    (folder / "XSEDE").mkdir(parents=True)
    heading = "site_id,name,location,cores,watts,lag,gflops,max_estimate_s,max_request_cores"
    rows = [
        f"{at},{name},{'East' if at % 2 else 'West'},{CORES.get(name, 128)},{80 - 8 * at},0,{5 + 2 * at},172800,64"
        for at, name in enumerate(SHARES)
    ]
    (folder / "xsede_sites.csv").write_text("\n".join((heading, *rows)) + "\n")
    hour = np.arange(30 * 24)
    for place, price in {"East": 40 + 10 * np.sin(hour / 24 * 2 * np.pi), "West": np.full(len(hour), 60.0)}.items():
        (folder / "XSEDE" / f"{place}.csv").write_text('"price"\n' + "\n".join(f"{each:.2f}" for each in price) + "\n")
    return folder


def write_forecasts(folder: Path, out: Path) -> Path:
    """Write forecasts that say the same hours again: to learn them would take minutes."""
    out.mkdir(exist_ok=True)
    for place in places(folder, out).values():
        hour = np.loadtxt(place.prices, skiprows=1).reshape(-1, 24)
        np.save(place.kept, np.repeat(hour[:, None], 4, axis=1))
    return out
