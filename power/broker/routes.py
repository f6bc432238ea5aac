"""The ways to sites: commands are run here, for another cluster, or on another machine by ssh."""

import asyncio
import os
from collections.abc import Mapping, Sequence
from typing import Protocol

from plugin.federation.reach import LOCAL, SLURM, Reach
from plugin.federation.sites import Site
from plugin.pbs.batch import PbsBatch
from plugin.scheduler.batch import BatchCommands, BatchResult
from plugin.slurm.batch import SlurmBatch
from plugin.slurm.commands import plain_environment


class Route(Protocol):
    """Runs commands where a site's scheduler is."""

    async def run(self, words: Sequence[str], *, stdin: str | None = None, timeout_s: float) -> BatchResult:
        """Return what the command answers; the code None where nobody knows, also after `timeout_s`. Never raises."""


class LocalRoute:
    """Runs commands on this machine. What submits gets our own environment, as if its owner had typed it."""

    async def run(self, words: Sequence[str], *, stdin: str | None = None, timeout_s: float) -> BatchResult:
        """Return what the command answers."""
        environment = plain_environment() if stdin is None else dict(os.environ)
        try:
            child = await _started(words, environment)
        except OSError as problem:
            return BatchResult(127, "", f"{words[0]}: cannot be run: {problem.strerror}")
        try:
            async with asyncio.timeout(timeout_s):
                output, complaint = await child.communicate((stdin or "").encode())
        except TimeoutError:
            return BatchResult(None, "", f"{words[0]}: no answer within {timeout_s:g} s")
        finally:
            if child.returncode is None:
                child.kill()
                await child.wait()
        return BatchResult(child.returncode, output.decode(errors="replace"), complaint.decode(errors="replace"))


async def _started(words: Sequence[str], environment: Mapping[str, str]) -> asyncio.subprocess.Process:
    pipe = asyncio.subprocess.PIPE
    return await asyncio.create_subprocess_exec(*words, stdin=pipe, stdout=pipe, stderr=pipe, env=environment)


def reach_of(site: Site) -> Reach:
    """Return how the site is reached; one that its file does not tell of was left out before."""
    assert site.reach is not None
    return site.reach


def route_of(site: Site) -> Route:
    """Return the way to the site's scheduler."""
    reach = reach_of(site)
    if reach.way in (LOCAL, SLURM):
        return LocalRoute()
    # Who asks only sites of this machine does without asyncssh.
    from services.broker.ssh_route import SshRoute

    return SshRoute(site.name, reach)


def batch_of(site: Site) -> BatchCommands:
    """Return the commands of the site's scheduler."""
    reach = reach_of(site)
    return PbsBatch() if reach.submit == "qsub" else SlurmBatch(reach.cluster)
