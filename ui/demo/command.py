"""`offpeak demo`: a simulated day of a cluster in one minute, with nothing but Python."""

import os
import sys
from pathlib import Path
from typing import Annotated

import typer

FOLDER = Path("demo")


def demo(
    seconds: Annotated[float, typer.Option(min=5, help="Length of the demo.")] = 60.0,
    nodes: Annotated[int, typer.Option(min=4, max=200, help="Number of virtual nodes.")] = 16,
    clock_factor: Annotated[
        float, typer.Option(min=60, help="Speed of the clock, as a multiple of real time.")
    ] = 600.0,
    listen: Annotated[str, typer.Option(help="Address and port of the page, on loopback.")] = "127.0.0.1:8017",
    hardware_port: Annotated[int, typer.Option(min=1024, max=65535, help="Port of its BMCs and PDUs.")] = 6230,
    folder: Annotated[Path, typer.Option(help="Folder of all its files; emptied first.")] = FOLDER,
) -> None:
    """Run the agent on virtual nodes, and show the status page. The scheduler is simulated, too.

    In a terminal the page stays available, with the day's data, until Ctrl-C.
    """
    # What it runs loads numpy, pyghmi and SQLAlchemy, which `offpeak --version` must not wait for.
    from ui.demo.run import run_demo
    from ui.demo.site import DemoPlan

    run_demo(
        DemoPlan(folder.resolve(), nodes, seconds, clock_factor, listen, hardware_port),
        typer.echo,
        stays=sys.stdin.isatty() and sys.stdout.isatty() and not os.environ.get("CI"),
    )
