"""The job of `offpeak choose` and `submit`: its script, and the options of its owner."""

from dataclasses import dataclass
from pathlib import Path

from offpeak.errors import BadInput
from offpeak.files import read_bytes
from offpeak.model.time_range import parse_instant, parse_limit_s
from plugin.federation.job_script import MOST_BYTES


@dataclass(frozen=True)
class JobOptions:
    """The options of the command line, as typed; None leaves the value to the script."""

    goal: str
    latest_finish: str | None
    limit: str | None
    cores: int | None
    application: str | None


@dataclass(frozen=True)
class JobFile:
    """A script with its `name` and arguments, and the options with parsed times."""

    script: str
    name: str
    arguments: tuple[str, ...]
    goal: str
    latest_end_s: int | None
    cores: int | None
    limit_s: int | None
    application: str | None


def read_job_file(path: Path, arguments: tuple[str, ...], options: JobOptions) -> JobFile:
    """Return the job of a file; raise BadInput if the file cannot be read or is too long, or a time is invalid."""
    latest_end_s = None if options.latest_finish is None else int(parse_instant(options.latest_finish))
    limit_s = None if options.limit is None else parse_limit_s(options.limit)
    text = read_bytes(path, BadInput)
    if len(text) > MOST_BYTES:
        raise BadInput(f"{path}: is longer than a mebibyte", hint="a script calls programs, it does not hold them")
    script = text.decode(errors="surrogateescape")
    return JobFile(
        script=script,
        name=path.name,
        arguments=arguments,
        goal=options.goal,
        latest_end_s=latest_end_s,
        cores=options.cores,
        limit_s=limit_s,
        application=options.application,
    )
