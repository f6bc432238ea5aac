"""The longest that a job may have to wait: all jobs before it run for all of their estimates, and none overtakes.

Majanen et al., "Energy and Carbon Aware Scheduling in Supercomputing", section III-B.2: "it is possible to calculate
only the maximum wait times"; from the status of running jobs and the walltimes of each queued job.
"""

import numpy as np

from offpeak.model.arrays import Float64, Int64
from sim_backend.grid.broker import Moment
from sim_backend.grid.longest_kernel import room_after_s
from sim_backend.grid.open_site import OpenSite


class LongestWaits:
    """Counts on nothing but what sites say of themselves."""

    def wait_s(self, moment: Moment) -> Float64:
        """Return the longest wait [s] of each pending job at each site, float64[n, m].

        Where it is too wide, until the site is empty."""
        columns = [
            longest_wait_s(site, moment.now_s, moment.grid.units(moment.job, number))
            for number, site in enumerate(moment.sites)
        ]
        return np.stack(columns, axis=1)


def longest_wait_s(site: OpenSite, now_s: int, units: Int64) -> Float64:
    """Return the longest wait [s] of jobs of so many units at a site, each alone behind its queue."""
    now, slots, queue = site.state.scalars[0], site.state.slots, site.state.queue
    runs = site.state.expected[: now["listed"]]
    waits = slice(int(now["head"]), int(now["tail"]))
    free = site.site.site.units - int(slots.size[runs].sum())
    return room_after_s(
        now_s, free, slots.size[runs], slots.expected_end_s[runs], queue.size[waits], queue.estimate_s[waits], units
    )
