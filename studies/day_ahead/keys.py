"""Names a result by everything that it depends on, so that a finished one is known again and an old one is not."""

import hashlib
import json
from collections.abc import Iterable
from dataclasses import asdict
from functools import cache
from pathlib import Path

from offpeak.compiled import sources_of
from studies.day_ahead.experiment import Experiment
from studies.day_ahead.folder import SITES

RUN = Path(__file__).with_name("run.py")


def key_of(experiment: Experiment, prices_digest: str) -> str:
    """Return the key of an experiment with prices and sites of that digest, under the present code."""
    told = json.dumps([asdict(experiment), prices_digest, code_digest()])
    return hashlib.sha256(told.encode()).hexdigest()[:24]


def digest_of(folder: Path, prices: Iterable[Path]) -> str:
    """Return a digest of the sites' table and the price files."""
    digest = hashlib.sha256((folder / SITES).read_bytes())
    for file in prices:
        digest.update(file.read_bytes())
    return digest.hexdigest()[:16]


@cache
def code_digest() -> str:
    """Return a digest of the sources of `run` and of what it imports of ours, kernels too."""
    digest = hashlib.sha256()
    for source in sources_of(RUN):
        digest.update(source.read_bytes())
    return digest.hexdigest()
