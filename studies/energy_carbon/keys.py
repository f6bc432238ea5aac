"""Names a result by everything that it depends on, so that a finished one is known again and an old one is not."""

import hashlib
import json
from dataclasses import asdict
from functools import cache
from pathlib import Path

from offpeak.compiled import sources_of
from offpeak.model.node_class_file import bundled_node_class
from studies.energy_carbon.experiment import Experiment
from studies.energy_carbon.paper import TESTBEDS

RUN = Path(__file__).with_name("run.py")


def key_of(experiment: Experiment) -> str:
    """Return the key of an experiment under the present code and node classes."""
    told = json.dumps([type(experiment.case).__name__, asdict(experiment), code_digest()])
    return hashlib.sha256(told.encode()).hexdigest()[:24]


@cache
def code_digest() -> str:
    """Return a digest of what a replay rests on: the sources of `run` and what it imports of ours, and the nodes."""
    digest = hashlib.sha256()
    for source in sources_of(RUN):
        digest.update(source.read_bytes())
    for testbed in TESTBEDS:
        digest.update(repr(bundled_node_class(testbed)).encode())
    return digest.hexdigest()
