"""Nothing in the program gives a device an order but one function, which hands it to the door: the source shows it."""

import ast
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

PACKAGES = ("offpeak", "predictors", "plugin", "sim_backend", "power", "services", "studies", "ui", "benchmarks")
ORDERS = {"send", "standby", "control", "CONTROL", "set_power", "set_cap", "restore_cap"}
"""What gives an order: of drivers, of a node's offpeak-node, of a BMC, and of pyghmi."""

DRIVERS = "power/drivers/"
ALLOWED = {
    "power/door/node_orders.py": {"send"},
    "power/door/cap_orders.py": {"set_cap", "restore_cap"},
    # The soak orders virtual nodes of its own about.
    "benchmarks/soak/orders.py": {"send"},
    # Another thing of this name: a pipe to the process of an own policy, and to virtual BMCs.
    "benchmarks/caps.py": {"send"},
    # Signals to processes, and the agent that stands by in the row of the lease.
    "benchmarks/failover.py": {"send"},
    "benchmarks/local_slurm/pair.py": {"send"},
    "offpeak/ledger/lease.py": {"standby"},
    "plugin/window_policy.py": {"send"},
    # The bytes of an HTTP request.
    "offpeak/web_session.py": {"send"},
}


@dataclass(frozen=True)
class Source:
    """What a file reaches for: names that may be orders, called or not, with their lines, and packages it imports."""

    names: tuple[tuple[str, int], ...]
    packages: frozenset[str]


@pytest.fixture(scope="module")
def program(repository: Path) -> dict[str, Source]:
    """Every file of the program by its path, read once."""
    return {path.relative_to(repository).as_posix(): source_of(path) for path in sources(repository)}


def source_of(path: Path) -> Source:
    nodes = list(ast.walk(ast.parse(path.read_text(encoding="utf-8"))))
    return Source(tuple(found(nodes)), frozenset(package for node in nodes for package in _imported(node)))


def found(nodes: Iterable[ast.AST]) -> Iterator[tuple[str, int]]:
    for node in nodes:
        if isinstance(node, ast.Attribute):
            yield node.attr, node.lineno
        elif isinstance(node, ast.ImportFrom):
            yield from ((alias.name, node.lineno) for alias in node.names if node.module != "power")
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "getattr":
            yield from (
                (str(argument.value), node.lineno) for argument in node.args if isinstance(argument, ast.Constant)
            )


def sources(repository: Path) -> list[Path]:
    return [path for package in PACKAGES for path in sorted((repository / package).rglob("*.py"))]


def test_orders_are_given_by_one_function_only(program: dict[str, Source]) -> None:
    around = [
        f"{name}:{line}: {order}"
        for name, source in program.items()
        if not name.startswith(DRIVERS)
        for order, line in source.names
        if order in ORDERS - ALLOWED.get(name, set())
    ]
    assert around == []


@pytest.mark.quick
def test_order_function_goes_through_the_door(repository: Path) -> None:
    tree = ast.parse((repository / "power" / "door" / "node_orders.py").read_text(encoding="utf-8"))
    (orders,) = (node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == "NodeOrders")
    methods = {node.name: ast.unparse(node) for node in orders.body if isinstance(node, ast.AsyncFunctionDef)}
    assert ".send(effect.order, confirmed)" in methods["_act"]
    assert [name for name, text in methods.items() if ".send(" in text] == ["_act"]
    assert "self.door.let_through_prepared(effect, partial(self._act, effect, before_sending))" in methods["order"]
    users = [path for path in sources(repository) if re.search(r"\._act\b", path.read_text(encoding="utf-8"))]
    assert [path.name for path in users] == ["node_orders.py"]


@pytest.mark.parametrize("package", ["pyghmi", "asyncssh", "wakeonlan"])
def test_libraries_that_reach_devices_are_the_drivers_affair(program: dict[str, Source], package: str) -> None:
    users = {name for name, source in program.items() if package in source.packages}
    assert all(user.startswith(DRIVERS) for user in users)


def _imported(node: ast.AST) -> set[str]:
    if isinstance(node, ast.Import):
        return {alias.name.partition(".")[0] for alias in node.names}
    return {(node.module or "").partition(".")[0]} if isinstance(node, ast.ImportFrom) else set()


@pytest.mark.quick
@pytest.mark.parametrize(
    "text",
    [
        "driver.send(order)",
        "later = partial(driver.send, order)",
        "getattr(driver, 'send')(order)",
        "from offpeak.power.drivers.ipmi.requests import CONTROL",
        "await node.standby(60)",
    ],
)
def test_code_that_bypasses_the_door_is_found(tmp_path: Path, text: str) -> None:
    file = tmp_path / "agent.py"
    file.write_text(f"async def f(driver, node, order):\n    {text}\n")
    assert {name for name, _ in source_of(file).names} & ORDERS
