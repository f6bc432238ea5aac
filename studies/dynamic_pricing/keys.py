"""Names a result by everything that it depends on, so that a finished one is known again and an old one is not."""

import hashlib
import json
from dataclasses import asdict
from functools import cache
from pathlib import Path

from offpeak.compiled import IMPORTED, ROOT
from studies.dynamic_pricing.experiment import Experiment

RUN = Path(__file__).with_name("run.py")


def key_of(experiment: Experiment, log_digest: str) -> str:
    """Return the key of an experiment on a log of that digest, under the present code."""
    told = json.dumps([asdict(experiment), log_digest, code_digest()])
    return hashlib.sha256(told.encode()).hexdigest()[:24]


@cache
def code_digest() -> str:
    """Return a digest of the sources that a replay runs through: `run` and what it imports of ours, kernels too."""
    digest = hashlib.sha256()
    for source in sources_of(RUN):
        digest.update(source.read_bytes())
    return digest.hexdigest()


def sources_of(module: Path) -> tuple[Path, ...]:
    """Return the module's file and those of our modules that it imports, directly or not."""
    found = {module}
    unread = [module]
    while unread:
        names = IMPORTED.findall(unread.pop().read_bytes())
        imported = {ROOT.joinpath(*name.decode().split(".")).with_suffix(".py") for name in names}
        new = {path for path in imported - found if path.is_file()}
        found |= new
        unread += new
    return tuple(sorted(found))
