"""Names a result by everything that it depends on, so that a finished one is known again and an old one is not."""

import hashlib
import json
from dataclasses import asdict
from functools import cache
from pathlib import Path

from offpeak.compiled import sources_of
from studies.online_simulation.experiment import Experiment
from studies.online_simulation.nodes import node_class_of

RUN = Path(__file__).with_name("run.py")


def key_of(experiment: Experiment, log_digest: str) -> str:
    """Return the key of an experiment on a log of that digest, under the present code and node classes."""
    nodes = asdict(node_class_of(experiment.setup.nodes))
    told = json.dumps([asdict(experiment), log_digest, code_digest(), nodes])
    return hashlib.sha256(told.encode()).hexdigest()[:24]


@cache
def code_digest() -> str:
    """Return a digest of the sources that a replay runs through: `run` and what it imports of ours, kernels too."""
    digest = hashlib.sha256()
    for source in sources_of(RUN):
        digest.update(source.read_bytes())
    return digest.hexdigest()
