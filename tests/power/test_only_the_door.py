"""Nothing in the program gives a device an order but one function, which hands it to the door: the source shows it."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGES = ("offpeak", "predictors", "plugin", "sim_backend", "power", "studies", "ui", "benchmarks")
ORDERS = {"send", "standby", "governor", "control", "CONTROL", "set_power"}
"""What gives an order: of drivers, of a node's offpeak-node, of a BMC, and of pyghmi."""

DRIVERS = "power/drivers/"
ALLOWED = {
    "power/effects.py": {"send"},
    # The soak orders virtual nodes of its own about.
    "benchmarks/soak/orders.py": {"send"},
    # Other things of these names: where a virtual BMC looks up its commands, and a pipe to a solver.
    "sim_backend/virtual/rmcp/commands.py": {"control"},
    "plugin/planner/cp_process.py": {"send"},
}


def found(path: Path) -> Iterator[tuple[str, int]]:
    """Give the names of orders that a file reaches for, called or not, and their lines."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Attribute):
            yield node.attr, node.lineno
        elif isinstance(node, ast.ImportFrom):
            yield from ((alias.name, node.lineno) for alias in node.names if node.module != "power")
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "getattr":
            yield from ((str(each.value), node.lineno) for each in node.args if isinstance(each, ast.Constant))


def sources(repository: Path) -> list[Path]:
    return [path for package in PACKAGES for path in sorted((repository / package).rglob("*.py"))]


@pytest.mark.thorough
def test_orders_are_given_by_one_function_only(repository: Path) -> None:
    around = []
    for path in sources(repository):
        name = path.relative_to(repository).as_posix()
        if not name.startswith(DRIVERS):
            reached = [(order, line) for order, line in found(path) if order in ORDERS - ALLOWED.get(name, set())]
            around += [f"{name}:{line}: {order}" for order, line in reached]
    assert around == []


def test_that_function_hands_it_to_the_door(repository: Path) -> None:
    tree = ast.parse((repository / "power" / "effects.py").read_text(encoding="utf-8"))
    (orders,) = (node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == "NodeOrders")
    methods = {node.name: ast.unparse(node) for node in orders.body if isinstance(node, ast.AsyncFunctionDef)}
    assert ".send(Order(effect.order), confirmed)" in methods["_act"]
    assert [name for name, text in methods.items() if ".send(" in text] == ["_act"]
    assert "self.door.let_through_prepared(effect, partial(self._act, effect, before_sending))" in methods["order"]
    users = [path for path in sources(repository) if re.search(r"\._act\b", path.read_text(encoding="utf-8"))]
    assert [path.name for path in users] == ["effects.py"]


@pytest.mark.thorough
@pytest.mark.parametrize("package", ["pyghmi", "asyncssh", "wakeonlan"])
def test_libraries_that_reach_devices_are_the_drivers_affair(repository: Path, package: str) -> None:
    users = {
        path.relative_to(repository).as_posix()
        for path in sources(repository)
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if package in _imported(node)
    }
    assert all(user.startswith(DRIVERS) for user in users)


def _imported(node: ast.AST) -> set[str]:
    if isinstance(node, ast.Import):
        return {alias.name.partition(".")[0] for alias in node.names}
    return {(node.module or "").partition(".")[0]} if isinstance(node, ast.ImportFrom) else set()


@pytest.mark.parametrize(
    "text",
    [
        "driver.send(order)",
        "later = partial(driver.send, order)",
        "getattr(driver, 'send')(order)",
        "from power.drivers.ipmi.request import CONTROL",
        "await node.standby(60)",
    ],
)
def test_whoever_goes_around_it_is_found(tmp_path: Path, text: str) -> None:
    file = tmp_path / "agent.py"
    file.write_text(f"async def f(driver, node, order):\n    {text}\n")
    assert {name for name, _ in found(file)} & ORDERS
