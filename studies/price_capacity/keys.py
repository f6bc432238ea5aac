"""Names a result by everything that it depends on, so that a finished one is known again and an old one is not."""

import hashlib
import json
from dataclasses import asdict
from functools import cache
from pathlib import Path

from offpeak.compiled import sources_of
from offpeak.errors import BadPrices
from offpeak.files import read_bytes
from studies.price_capacity.experiment import Experiment
from studies.price_capacity.run import NODES

RUN_THROUGH = tuple(Path(__file__).with_name(name) for name in ("run.py", "prices.py"))


def key_of(experiment: Experiment, log_digest: str, prices_digest: str) -> str:
    """Return the key of an experiment on a log and prices of these digests, under the present code and node class."""
    told = json.dumps([asdict(experiment), log_digest, prices_digest, code_digest(), asdict(NODES)])
    return hashlib.sha256(told.encode()).hexdigest()[:24]


def digest_of(prices: Path) -> str:
    """Return a digest of a price file, compressed or not. BadPrices if it cannot be read."""
    return hashlib.sha256(read_bytes(prices, BadPrices)).hexdigest()[:16]


@cache
def code_digest() -> str:
    """Return a digest of the sources that a replay runs through: `RUN_THROUGH` and what it imports, kernels too."""
    digest = hashlib.sha256()
    for source in sorted({source for module in RUN_THROUGH for source in sources_of(module)}):
        digest.update(source.read_bytes())
    return digest.hexdigest()
