"""The commands that submit, find, follow and cancel jobs, and the meaning of their output.

All functions are pure: the caller runs the commands, on this or on another machine.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

SUBMIT_S = 20
"""`timeout` ends a submission after this time, even if its caller has died."""


@dataclass(frozen=True)
class JobSubmission:
    """A job to submit: its `key`, its `script` and arguments, and the options that are added to the script's own.

    `name` is "" and `cores` None if the script sets them for this scheduler, `latest_finish` "" without one.
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
    """The result of a command; `code` is None if it is unknown, after a time-out or a lost connection."""

    code: int | None
    output: str
    complaint: str


@dataclass(frozen=True)
class BatchJob:
    """A job at its site; `state` is in the scheduler's own terms."""

    job: str
    state: str


class BatchCommands(Protocol):
    """The commands of one kind of scheduler, each as a list of arguments: no shell parses them."""

    def rights_commands(self, user: str) -> Sequence[Sequence[str]]:
        """Return the commands that show the rights of a user."""

    def admin_right(self, user: str, answers: Sequence[str]) -> str:
        """Return the user's right to administer the scheduler by the answers of `rights_commands`, "" for none."""

    def submit_command(self, submission: JobSubmission) -> Sequence[str]:
        """Return the command that submits the script on its standard input."""

    def submitted_job(self, ran: BatchResult) -> str:
        """Return the job that was submitted, "" if the output names none."""

    def refusal(self, ran: BatchResult) -> str:
        """Return why the job was certainly refused, "" if the scheduler may have taken it."""

    def list_command(self) -> Sequence[str]:
        """Return the command that lists jobs, with those that have just ended."""

    def fallback_command(self, ran: BatchResult) -> Sequence[str]:
        """Return another command that lists jobs if the first one is not supported, else ()."""

    def find_by_key(self, output: str, *, key: str) -> BatchJob | None:
        """Return the job with that key in the list, None without one."""

    def find_by_id(self, output: str, *, job: str) -> BatchJob | None:
        """Return the job with that number in the list, None without one."""

    def cancel_command(self, job: str) -> Sequence[str]:
        """Return the command that cancels a job."""
