"""The choice of the site of one job by its own goal, as the broker makes it."""

from collections.abc import Mapping
from typing import Any

from offpeak.plugin.federation.cycle import SiteChoice
from offpeak.plugin.federation.jobs import PlacementRequest, policy_for
from offpeak.plugin.federation.live_cycle import SiteReply, choose_together
from offpeak.plugin.federation.sites import Grid


def choose(request: PlacementRequest, grid: Grid, replies: Mapping[str, SiteReply], **options: Any) -> SiteChoice:
    return choose_together((request,), grid, replies, policy=policy_for(request), **options).choices[0]
