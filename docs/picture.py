"""Draws docs/images/simulate.svg: what `offpeak simulate` prints of the bundled log. Run by `make reference`."""

import io
import subprocess
import sys
from pathlib import Path

from rich.console import Console
from rich.terminal_theme import MONOKAI

SAMPLE = Path("sim_backend", "sample")
PICTURE = Path("docs", "images", "simulate.svg")
WIDTH = 104


def main() -> None:
    """Run the command in the repository's root and draw what it prints."""
    arguments = [SAMPLE / "sample.swf.gz", "--prices", SAMPLE / "sample_prices_eur_per_mwh.csv.gz"]
    offpeak = Path(sys.executable).with_name("offpeak")
    printed = subprocess.run([offpeak, "simulate", *arguments], check=True, capture_output=True, text=True).stdout
    console = Console(record=True, width=WIDTH, file=io.StringIO(), highlight=False, markup=False)
    console.print("$ offpeak simulate sample.swf.gz --prices sample_prices_eur_per_mwh.csv.gz", style="bold green")
    console.print(printed.rstrip())
    console.save_svg(str(PICTURE), title="offpeak", theme=MONOKAI, unique_id="offpeak")


if __name__ == "__main__":
    main()
