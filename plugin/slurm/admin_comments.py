"""What a job's owner sees of us: one bracketed part of the job's AdminComment; what else stands there stays."""

import re
from collections.abc import Mapping

from plugin.slurm.ask import ask
from plugin.slurm.change_jobs import GONE, Telling
from plugin.slurm.told import complaint_of_one

UNCLEAR = "a line break in its name or comments hides which AdminComment is its own"

_OURS = re.compile(r"\s*\[offpeak: [^\]]*\]")
_RECORD = re.compile(r"^JobId=(\d+) ", re.MULTILINE)
_COMMENT = re.compile(r"^   AdminComment=(.*?)(?=\n   [A-Z]\w*[=/:]|\n\n|\Z)", re.MULTILINE | re.DOTALL)
_FOR_JOB = r" for job \S+$"


def tell_owners(comments: Mapping[str, str], telling: Telling) -> dict[str, str]:
    """Write for each job what its owner is to see, "" takes it away; return why not, by job, but for jobs that went."""
    present = admin_comments(ask("scontrol", "--all", "show", "jobs", timeout_s=telling.timeout_s))
    troubles = {job: _replace(job, present[job], ours, telling) for job, ours in comments.items() if job in present}
    return {job: trouble for job, trouble in troubles.items() if trouble and trouble not in GONE}


def admin_comments(shown: bytes) -> dict[str, str]:
    """Return the AdminComment of each job that `scontrol show jobs` prints, UNCLEAR where it shows several."""
    pieces = _RECORD.split(shown.decode(errors="replace"))[1:]
    found: dict[str, str] = {}
    for job, record in zip(pieces[::2], pieces[1::2], strict=True):
        texts = [match[1].rstrip() for match in _COMMENT.finditer(record)]
        found[job] = UNCLEAR if len(texts) > 1 or job in found else "".join(texts)
    return found


def with_ours(text: str, ours: str) -> str:
    """Return the text with our part replaced; "" takes it away, and leaves a text without our part as it is."""
    if not ours and not _OURS.search(text):
        return text
    theirs = _OURS.sub("", text).strip()
    # What ends our part, or a line, must not stand inside it.
    inside = " ".join(ours.replace("]", ")").split())
    return f"{theirs} [offpeak: {inside}]".strip() if inside else theirs


def _replace(job: str, theirs: str, ours: str, telling: Telling) -> str:
    if theirs == UNCLEAR:
        return UNCLEAR
    if (wanted := with_ours(theirs, ours)) == theirs:
        return ""
    # An argument, not a line: on standard input scontrol keeps the quotes that a text with spaces needs.
    arguments = ("update", f"jobid={job}", f"admincomment={wanted}")
    said = complaint_of_one(arguments, _FOR_JOB, command=telling.command, timeout_s=telling.timeout_s)
    return re.sub(_FOR_JOB, "", said)
