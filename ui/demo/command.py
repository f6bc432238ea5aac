"""`offpeak demo`: a simulated day of a cluster in one minute, with nothing but Python."""

import os
import socket
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
    listen: Annotated[
        str | None,
        typer.Option(
            help="Address and port of the page, on loopback. [default: 127.0.0.1 and the first free from 8017]"
        ),
    ] = None,
    hardware_port: Annotated[
        int | None,
        typer.Option(min=1024, max=65535, help="Port of its BMCs and PDUs. [default: the first free from 6230]"),
    ] = None,
    folder: Annotated[Path, typer.Option(help="Folder of all its files; emptied first.")] = FOLDER,
) -> None:
    """Run the agent on virtual nodes, and show the status page. The scheduler is simulated, too.

    In a terminal the page stays available, with the day's data, until Ctrl-C.
    """
    from offpeak.sim_backend.virtual.room_plan import RoomPlan
    from offpeak.ui.demo.run import first_free_port, run_demo
    from offpeak.ui.demo.site import DemoPlan

    listen = listen or f"127.0.0.1:{first_free_port('127.0.0.1', 8017, socket.SOCK_STREAM)}"
    hardware_port = hardware_port or first_free_port(RoomPlan.bmc_host, 6230, socket.SOCK_DGRAM)
    run_demo(
        DemoPlan(folder.resolve(), nodes, seconds, clock_factor, listen, hardware_port),
        typer.echo,
        stays=sys.stdin.isatty() and sys.stdout.isatty() and not os.environ.get("CI"),
    )
