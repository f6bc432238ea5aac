"""The real servers that the tests talk to, for benchmarks that need them."""

import sys
from importlib import import_module
from pathlib import Path
from typing import Any

PEERS = Path(__file__).resolve().parents[1] / "tests" / "peers"


def peer(name: str) -> Any:
    """Return the module of that name in tests/peers, whose modules import each other from that folder."""
    if str(PEERS) not in sys.path:
        sys.path.append(str(PEERS))
    return import_module(name)
