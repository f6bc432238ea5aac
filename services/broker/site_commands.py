"""The commands of a site's scheduler: submit, find by key, follow, cancel. Every order goes through the door.

Commands run on this machine, for another cluster, or on another machine by ssh. No job is submitted by an account
with admin rights, because the job's script has the rights of the account that submits it. The errors say what became
of a job that was to be given to a site; the ledger keeps their class names.
"""

import asyncio
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from offpeak.errors import OffpeakError, SchedulerError
from offpeak.process import user_name
from plugin.federation.reach import LOCAL, SLURM, Reach
from plugin.federation.sites import Site
from plugin.pbs.batch import PbsBatch
from plugin.scheduler.batch import SUBMIT_S, BatchCommands, BatchJob, BatchResult, JobSubmission
from plugin.slurm.batch import SlurmBatch
from plugin.slurm.commands import plain_environment


class NoSite(OffpeakError):
    """No site can have the job now."""


class SiteRefused(SchedulerError):
    """The site said no: it certainly does not have the job."""


class NotKnown(SchedulerError):
    """Whether the site has the job nobody knows yet: it is given to no other."""


class UnknownKey(OffpeakError):
    """No job was handed over by that key."""


class SiteRoute(Protocol):
    """Runs commands where a site's scheduler is."""

    async def run(self, words: Sequence[str], *, stdin: str | None = None, timeout_s: float) -> BatchResult:
        """Return what the command answers; the code None where nobody knows, also after `timeout_s`. Never raises."""


class LocalRoute:
    """Runs commands on this machine. What submits gets our own environment, as if its owner had typed it."""

    async def run(self, words: Sequence[str], *, stdin: str | None = None, timeout_s: float) -> BatchResult:
        """Return what the command answers."""
        environment = plain_environment() if stdin is None else dict(os.environ)
        try:
            child = await _start(words, environment)
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


async def _start(words: Sequence[str], environment: Mapping[str, str]) -> asyncio.subprocess.Process:
    pipe = asyncio.subprocess.PIPE
    return await asyncio.create_subprocess_exec(*words, stdin=pipe, stdout=pipe, stderr=pipe, env=environment)


def reach_of(site: Site) -> Reach:
    """Return how the site is reached; one that its file does not tell of was left out before."""
    assert site.reach is not None
    return site.reach


def route_of(site: Site) -> SiteRoute:
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


ANSWER_S = 30.0
"""How long a list of jobs or a cancellation may take."""
ON_THE_WAY_S = 10.0
RIGHTS_S = 5.0
"""How long the scheduler may take to show which rights the submitting account has."""


@dataclass(frozen=True)
class Submitter:
    """The account of this machine that submits jobs, and its right over the machine or the agent, "" for none."""

    user: str
    right: str


def this_account(agent_socket: Path) -> Submitter:
    """Return the account of this process; `agent_socket` belongs to the agent's user."""
    uid = os.geteuid()
    try:
        agent_uid = agent_socket.stat().st_uid
    except OSError:
        agent_uid = None
    return Submitter(user_name(uid), "root" if uid == 0 else "the agent's user" if uid == agent_uid else "")


@dataclass(frozen=True)
class SiteCommands:
    """The commands of one site and the way to where they are run.

    `submitter` is the account that they are run as, None where another machine is logged in to: offpeak-site checks the
    account there.
    """

    name: str
    batch: BatchCommands
    route: SiteRoute
    submitter: Submitter | None

    async def submit(self, errand: JobSubmission) -> str:
        """Return the job that the site has taken; SiteRefused if it certainly has not, NotKnown otherwise."""
        if self.submitter is not None and (right := await self._admin_right(self.submitter)):
            hint = "submit as an account without admin rights, such as offpeak-broker"
            raise SiteRefused(f"{self.name}: jobs are not submitted as {self.submitter.user}, which is {right}: {hint}")
        words = self.batch.submit_command(errand)
        ran = await self.route.run(words, stdin=errand.script, timeout_s=SUBMIT_S + ON_THE_WAY_S)
        if job := self.batch.submitted_job(ran):
            return job
        if refused := self.batch.refusal(ran):
            raise SiteRefused(f"{self.name}: {refused}")
        raise NotKnown(f"{self.name}: {_complaint(ran)}")

    async def _admin_right(self, submitter: Submitter) -> str:
        """Return the right by which the account administers machine, agent or scheduler, "" for none."""
        if submitter.right:
            return submitter.right
        answers = []
        commands = self.batch.rights_commands(submitter.user)
        for words in commands:
            ran = await self.route.run(words, timeout_s=RIGHTS_S / len(commands))
            if ran.code != 0:
                return f"unknown to us ({_complaint(ran)})"
            answers.append(ran.output)
        return self.batch.admin_right(submitter.user, answers)

    async def find(self, key: str) -> BatchJob | None:
        """Return the job of that key, None if the site says that it has none; NotKnown if it does not say."""
        return self.batch.find_by_key(await self._listed(), key=key)

    async def standing(self, job: str) -> BatchJob | None:
        """Return a job, None if the site does not know it any more; NotKnown if it does not say."""
        return self.batch.find_by_id(await self._listed(), job=job)

    async def cancel(self, job: str) -> str:
        """Cancel a job; SiteRefused with what the site says against it."""
        ran = await self.route.run(self.batch.cancel_command(job), timeout_s=ANSWER_S)
        if ran.code != 0:
            raise SiteRefused(f"{self.name}: job {job}: {_complaint(ran)}")
        return "cancelled"

    async def _listed(self) -> str:
        words = self.batch.list_command()
        ran = await self.route.run(words, timeout_s=ANSWER_S)
        if fallback := self.batch.fallback_command(ran):
            ran = await self.route.run(fallback, timeout_s=ANSWER_S)
        # An empty list is none where the command complains, whatever its code. A banner of ssh is no complaint.
        complains = any(line.startswith(f"{words[0]}: ") for line in ran.complaint.splitlines())
        if ran.code != 0 or (complains and not ran.output.strip()):
            raise NotKnown(f"{self.name}: {_complaint(ran)}", hint="ask again when it answers: the same key finds out")
        return ran.output


def commands_of_site(site: Site, *, agent_socket: Path) -> SiteCommands:
    """Return how that site is told and asked; `agent_socket` is that of this machine's agent."""
    own_account = reach_of(site).way in (LOCAL, SLURM)
    return SiteCommands(site.name, batch_of(site), route_of(site), this_account(agent_socket) if own_account else None)


def _complaint(ran: BatchResult) -> str:
    lines = (ran.complaint.strip() or ran.output.strip()).splitlines()
    return lines[-1] if lines else f"ended with {ran.code} and did not say why"
