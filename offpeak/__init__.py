"""The base package of offpeak, which every other package uses. It has no scheduler, driver or daemon.

`model` holds the values (jobs, nodes, snapshots, series over time, units), `settings` the table of all settings,
`prices` electricity prices, `machines` the inventory, `door` the only way to an effect, `ledger` the record of
decisions and actions. The other files are tools: errors, texts, files, processes, compiled kernels, HTTP sessions, the
installation. All other packages import from here; nothing here imports from them.

`import offpeak` also offers the functions of `offpeak.ui.notebook` to notebooks: load, price, replay, compare, plot.
"""

from importlib import import_module
from typing import Any

__all__ = ["compare", "load", "plot", "price", "replay"]


def __getattr__(name: str) -> Any:
    """Return a function for notebooks. Its first use loads it: nothing of offpeak itself needs the upper layer."""
    if name in __all__:
        return getattr(import_module("offpeak.ui.notebook"), name)
    raise AttributeError(f"module 'offpeak' has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*globals(), *__all__]
