"""How jobs are submitted, found, followed and cancelled: the words of a scheduler's commands and what they answer.

Pure: who runs them, here or on another machine, is no business of these.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

SUBMIT_S = 20
"""No command that submits lives longer: `timeout` ends it, also where whoever called it has died."""


@dataclass(frozen=True)
class JobSubmission:
    """A job to submit: its `script` and arguments, its `key`, and what it is given beside what stands in the script.

    `name` is "" where the script gives one, `cores` None where the script says it to this scheduler, `latest_finish` ""
    without one.
    """

    key: str
    script: str
    name: str
    arguments: tuple[str, ...]
    limit_s: int
    cores: int | None
    cores_per_node: int
    comment: str = ""
    variables: str = ""
    latest_finish: str = ""


@dataclass(frozen=True)
class BatchResult:
    """What a command answered; `code` is None where nobody knows, since it took too long or the way to it broke."""

    code: int | None
    output: str
    complaint: str


@dataclass(frozen=True)
class BatchJob:
    """A job as its site knows it: `state` is the scheduler's own word."""

    job: str
    state: str


class BatchCommands(Protocol):
    """The commands of one kind of scheduler. Words are for a shell that is not there: each is one argument."""

    def rights_commands(self, user: str) -> Sequence[Sequence[str]]:
        """Return the commands whose answers show which rights a user has."""

    def admin_right(self, user: str, answers: Sequence[str]) -> str:
        """Return the user's right to administer the scheduler by the answers of `rights_commands`, "" for none."""

    def submit_command(self, submission: JobSubmission) -> Sequence[str]:
        """Return the command that submits what it reads from its standard input."""

    def submitted_job(self, ran: BatchResult) -> str:
        """Return the job that was submitted, "" where the answer does not tell."""

    def refusal(self, ran: BatchResult) -> str:
        """Return why the job was certainly not taken, "" where it may have been."""

    def list_command(self) -> Sequence[str]:
        """Return the command that lists jobs, also those that have just ended."""

    def fallback_command(self, ran: BatchResult) -> Sequence[str]:
        """Return the command that lists jobs where the first one has answered that it cannot, () if it has not."""

    def find_by_key(self, output: str, *, key: str) -> BatchJob | None:
        """Return the job of that key in the list, None if it is not there."""

    def find_by_id(self, output: str, *, job: str) -> BatchJob | None:
        """Return that job of the list, None if it is not there."""

    def cancel_command(self, job: str) -> Sequence[str]:
        """Return the command that cancels a job."""
