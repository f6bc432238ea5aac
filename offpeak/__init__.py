"""The base package of offpeak, which every other package uses. It has no scheduler, driver or daemon.

`model` holds the values (jobs, nodes, snapshots, series over time, units), `settings` the table of all settings,
`prices` electricity prices, `machines` the inventory, `door` the only way to an effect, `ledger` the record of
decisions and actions. The other files are tools: errors, texts, files, processes, compiled kernels, HTTP sessions, the
installation. All other packages import from here; nothing here imports from them.

`import offpeak` also offers to notebooks what docs/how-to/python.md lists: load, price, replay, compare, plot.
"""

from importlib import import_module
from typing import Any

SAMPLES, NOTEBOOK = "offpeak.sim_backend.sample", "offpeak.ui.notebook"
PUBLIC = {
    "SAMPLE_LOG": SAMPLES,
    "SAMPLE_PRICES": SAMPLES,
    "compare": NOTEBOOK,
    "load": NOTEBOOK,
    "plot": NOTEBOOK,
    "price": NOTEBOOK,
    "replay": NOTEBOOK,
}
__all__ = list(PUBLIC)


def __getattr__(name: str) -> Any:
    """Return a public name. Its first use loads its module: nothing of offpeak itself needs the upper layers."""
    if name in PUBLIC:
        return getattr(import_module(PUBLIC[name]), name)
    raise AttributeError(f"module 'offpeak' has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*globals(), *PUBLIC]
