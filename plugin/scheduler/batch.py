"""What brokers submit to a scheduler, and what its commands answer.

`SlurmBatch` and `PbsBatch` have the commands, each as a list of arguments, which no shell parses, and the meaning of
their output. All their methods are pure: the caller runs the commands, on this or on another machine.
"""

from dataclasses import dataclass

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
