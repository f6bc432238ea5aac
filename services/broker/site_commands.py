"""The commands of a site's scheduler: submit, find by key, follow, cancel. Every order goes through the door.

Commands run on this machine, for another cluster, or on another machine by ssh. No job is submitted by an account
with admin rights, because the job's script has the rights of the account that submits it. The errors name the outcome
of a submission; the ledger keeps their class names.
"""

import asyncio
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Protocol

from offpeak.errors import OffpeakError, SchedulerError
from offpeak.plugin.federation.sites import LOCAL, SLURM, Reach, Site
from offpeak.plugin.pbs.batch import PbsBatch
from offpeak.plugin.scheduler.batch import SUBMIT_S, BatchJob, BatchResult, JobSubmission
from offpeak.plugin.slurm.batch import SlurmBatch
from offpeak.plugin.slurm.commands import plain_environment
from offpeak.process import user_name


class NoSite(OffpeakError):
    """No site can run the job now."""


class SiteRefused(SchedulerError):
    """The site refused the job: it certainly does not have it."""


class NotKnown(SchedulerError):
    """It is not known whether the site has the job: no other site gets it."""


class UnknownKey(OffpeakError):
    """There is no job of that key."""


class SiteRoute(Protocol):
    """Runs commands on the machine of a site's scheduler."""

    async def run(self, command: Sequence[str], *, stdin: str | None = None, timeout_s: float) -> BatchResult:
        """Return the result of the command; its code is None if it is not known, or after `timeout_s`. Never raises."""


class LocalRoute:
    """Runs commands on this machine. A submission gets our own environment, as if its owner had typed it."""

    async def run(self, command: Sequence[str], *, stdin: str | None = None, timeout_s: float) -> BatchResult:
        """Return the result of the command."""
        environment = plain_environment() if stdin is None else dict(os.environ)
        try:
            pipe = asyncio.subprocess.PIPE
            child = await asyncio.create_subprocess_exec(
                *command, stdin=pipe, stdout=pipe, stderr=pipe, env=environment
            )
        except OSError as problem:
            return BatchResult(127, "", f"{command[0]}: cannot be run: {problem.strerror}")
        try:
            async with asyncio.timeout(timeout_s):
                output, complaint = await child.communicate((stdin or "").encode())
        except TimeoutError:
            return BatchResult(None, "", f"{command[0]}: no answer within {timeout_s:g} s")
        finally:
            if child.returncode is None:
                child.kill()
                await child.wait()
        return BatchResult(child.returncode, output.decode(errors="replace"), complaint.decode(errors="replace"))


def reach_of(site: Site) -> Reach:
    """Return how the site is reached; the caller has left out sites without it."""
    assert site.reach is not None
    return site.reach


def route_of(site: Site) -> SiteRoute:
    """Return the route to the site's scheduler."""
    reach = reach_of(site)
    if reach.way in (LOCAL, SLURM):
        return LocalRoute()
    # A broker of sites on this machine does without asyncssh.
    from offpeak.power.drivers.ssh import SshRoute

    return SshRoute(site.name, reach)


ANSWER_S = 30.0
"""The time limit of a list of jobs and of a cancellation."""
FIND_ATTEMPTS = 3
"""Jobs are submitted between a list of jobs and the count of them."""
REPEAT_HINT = "repeat the command with the same key when the site answers"
ON_THE_WAY_S = 10.0
RIGHTS_S = 5.0
"""The time limit of the commands that show the rights of the submitting account."""


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
    """The commands of one site and the route to the machine that runs them.

    `submitter` is the account that runs them, None for a site that is reached by ssh: offpeak-site checks the account
    there. The rights of an account are checked before its first job, once for the life of this object, which is one
    request or one cycle.
    """

    name: str
    batch: SlurmBatch | PbsBatch
    route: SiteRoute
    submitter: Submitter | None
    without_rights: set[str] = field(default_factory=set, compare=False, repr=False)

    async def submit(self, submission: JobSubmission) -> str:
        """Return the job that the site has taken. Raises SiteRefused if it surely has not, NotKnown if it may have."""
        if self.submitter is not None and self.submitter.user not in self.without_rights:
            submitter = self.submitter
            if right := await self._admin_right(submitter):
                hint = "submit as an account without admin rights, such as offpeak-broker"
                raise SiteRefused(f"{self.name}: jobs are not submitted as {submitter.user}, which is {right}: {hint}")
            self.without_rights.add(submitter.user)
        command = self.batch.submit_command(submission)
        result = await self.route.run(command, stdin=submission.script, timeout_s=SUBMIT_S + ON_THE_WAY_S)
        if job := self.batch.submitted_job(result):
            return job
        if refused := self.batch.refusal(result):
            raise SiteRefused(f"{self.name}: {refused}")
        raise NotKnown(f"{self.name}: {_complaint(result)}")

    async def _admin_right(self, submitter: Submitter) -> str:
        """Return the right by which the account administers machine, agent or scheduler, "" for none."""
        if submitter.right:
            return submitter.right
        answers = []
        commands = self.batch.rights_commands(submitter.user)
        for command in commands:
            result = await self.route.run(command, timeout_s=RIGHTS_S / len(commands))
            if result.code != 0:
                return f"unknown ({_complaint(result)})"
            answers.append(result.output)
        return self.batch.admin_right(submitter.user, answers)

    async def find(self, key: str) -> BatchJob | None:
        """Return the job of that key, None if the site has none. Raises NotKnown if the site does not say."""
        return await self._find(partial(self.batch.find_by_key, key=key))

    async def find_by_id(self, job: str) -> BatchJob | None:
        """Return a job, None if the site no longer knows it. Raises NotKnown if the site does not say."""
        return await self._find(partial(self.batch.find_by_id, job=job))

    async def _find(self, look_in: Callable[[str], BatchJob | None]) -> BatchJob | None:
        """Return the job; None needs the scheduler's own count of jobs, because a missing job is submitted again."""
        gap = ""
        for _ in range(FIND_ATTEMPTS):
            listed = await self._listed()
            with self._known():
                found = look_in(listed)
            if found is not None or not (command := self.batch.count_command()):
                return found
            if not (gap := self.batch.find_gap(listed, await self._answer(command))):
                return None
        raise NotKnown(f"{self.name}: {gap}", hint=REPEAT_HINT)

    async def cancel(self, job: str) -> str:
        """Cancel a job. Raises SiteRefused with the error of the site."""
        result = await self.route.run(self.batch.cancel_command(job), timeout_s=ANSWER_S)
        if result.code != 0:
            raise SiteRefused(f"{self.name}: job {job}: {_complaint(result)}")
        return "cancelled"

    @contextmanager
    def _known(self) -> Iterator[None]:
        try:
            yield
        except SchedulerError as problem:
            raise NotKnown(f"{self.name}: {problem}", hint=problem.hint) from None

    async def _listed(self) -> str:
        command = self.batch.list_command()
        result = await self.route.run(command, timeout_s=ANSWER_S)
        if fallback := self.batch.fallback_command(result):
            return await self._answer(fallback)
        return self._checked(command, result)

    async def _answer(self, command: Sequence[str]) -> str:
        return self._checked(command, await self.route.run(command, timeout_s=ANSWER_S))

    def _checked(self, command: Sequence[str], result: BatchResult) -> str:
        # An empty list does not count if the command complains, whatever its code. A banner of ssh is no complaint.
        complains = any(line.startswith(f"{command[0]}: ") for line in result.complaint.splitlines())
        if result.code != 0 or (complains and not result.output.strip()):
            raise NotKnown(f"{self.name}: {_complaint(result)}", hint=REPEAT_HINT)
        return result.output


def commands_of_site(site: Site, *, agent_socket: Path) -> SiteCommands:
    """Return the commands of that site; `agent_socket` is that of this machine's agent."""
    own_account = reach_of(site).way in (LOCAL, SLURM)
    reach = reach_of(site)
    return SiteCommands(
        site.name,
        PbsBatch() if reach.submit == "qsub" else SlurmBatch(reach.cluster),
        route_of(site),
        this_account(agent_socket) if own_account else None,
    )


def _complaint(result: BatchResult) -> str:
    lines = (result.complaint.strip() or result.output.strip()).splitlines()
    return lines[-1] if lines else f"ended with {result.code} without a message"
