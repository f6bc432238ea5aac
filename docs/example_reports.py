"""Writes the last reports of the two sites of docs/examples/two-sites.toml, as `offpeak broker` keeps them.

`python docs/example_reports.py FOLDER` stands for agents that answer: both sites are idle, harbour has some GPU nodes.
"""

import sys
import time
from pathlib import Path

from offpeak.model.constants import DAY_S, HOUR_S
from offpeak.plugin.federation.live_cycle import SiteReply
from offpeak.plugin.federation.site_report import Curve, NodePart, PartWaits, PoolWaits, SiteReport
from offpeak.services.broker.federation import FederationSnapshot, write_snapshots

LIMITS_S = (DAY_S,)


def pool(nodes: int, gpus: int, *, wait_s: float) -> PoolWaits:
    """Return a pool of nodes with 48 cores that all become free after the same wait."""
    part = PartWaits(NodePart(48, 192_000, gpus), (nodes,), ((wait_s,),))
    return PoolWaits(("batch",), nodes, 48, 192_000, {"a100": gpus} if gpus else {}, (), LIMITS_S, (part,))


def report(price_per_mwh: float, *pools: PoolWaits) -> SiteReport:
    """Return the report of a site at this moment."""
    now_s = int(time.time())
    cores = sum(each.nodes * each.cores for each in pools)
    price = Curve((now_s,), now_s + 2 * DAY_S, (price_per_mwh,), "EUR/MWh")
    return SiteReport(now_s, "example", "slurm 24.11", cores, cores, 0, 0, price=price, pools=pools)


if __name__ == "__main__":
    folder = Path(sys.argv[1])
    folder.mkdir(exist_ok=True)
    replies = {
        "harbour": SiteReply(report(95.0, pool(120, 0, wait_s=0.0), pool(8, 4, wait_s=5.0 * HOUR_S))),
        "fjord": SiteReply(report(42.0, pool(104, 0, wait_s=0.0))),
    }
    write_snapshots(folder, FederationSnapshot(replies), at_unix_s=time.time())
