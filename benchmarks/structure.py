"""Structure of the code: files, lines, class names, circles of imports, and how many files a decision passes.

`python -m benchmarks.structure` prints the figures as a table.
"""

import ast
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from statistics import median

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ("offpeak", "predictors", "plugin", "sim_backend", "power", "services", "ui")
MANY_ARGUMENTS = 7
POWER_DECISION, QUEUE_DECISION = "plan_power", "plan_queue"

Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True)
class Module:
    """A file of the product."""

    name: str
    text: str

    @cached_property
    def tree(self) -> ast.Module:
        """Its syntax tree."""
        return ast.parse(self.text)

    @cached_property
    def imported(self) -> dict[str, tuple[str, str]]:
        """By name here: module and name there, for each `from module import name`."""
        found: dict[str, tuple[str, str]] = {}
        for node in ast.walk(self.tree):
            if isinstance(node, ast.ImportFrom) and node.module:
                found |= {name.asname or name.name: (node.module, name.name) for name in node.names}
        return found

    @cached_property
    def functions(self) -> dict[str, list[Function]]:
        """By name: its functions, and under the name of a class its methods."""
        found: dict[str, list[Function]] = {}
        for node in self.tree.body:
            if isinstance(node, Function):
                found[node.name] = [node]
            elif isinstance(node, ast.ClassDef):
                found[node.name] = [each for each in node.body if isinstance(each, Function)]
        return found


@dataclass(frozen=True)
class Walk:
    """The files that a decision passes, in the order of its calls, and how often a call leads back to one of them."""

    files: tuple[str, ...]
    returns: int


class Structure:
    """The product's modules and their imports."""

    def __init__(self, root: Path = ROOT) -> None:
        """Read all product files below `root`, as they are imported."""
        paths = [path for package in PACKAGES for path in sorted((root / package).rglob("*.py"))]
        parts = [path.relative_to(root).with_suffix("").parts for path in paths]
        names = [".".join(each if each[0] == "offpeak" else ("offpeak", *each)) for each in parts]
        names = [name.removesuffix(".__init__") for name in names]
        texts = [path.read_text(encoding="utf-8") for path in paths]
        self.modules = {name: Module(name, text) for name, text in zip(names, texts, strict=True)}

    @property
    def lines(self) -> list[int]:
        """Lines of each file."""
        return [module.text.count("\n") for module in self.modules.values()]

    @cached_property
    def imports(self) -> dict[str, set[str]]:
        """By module: the modules of the product that it imports, anywhere in it."""
        return {name: set(self._imports_of(module, everywhere=True)) - {name} for name, module in self.modules.items()}

    def _imports_of(self, module: Module, *, everywhere: bool) -> Iterator[str]:
        for node in ast.walk(module.tree) if everywhere else module.tree.body:
            if isinstance(node, ast.ImportFrom) and node.module:
                names = [f"{node.module}.{name.name}" for name in node.names]
                candidates = [name if name in self.modules else node.module for name in names]
            elif isinstance(node, ast.Import):
                candidates = [name.name for name in node.names]
            else:
                continue
            yield from (candidate for candidate in candidates if candidate in self.modules)

    @property
    def imported_by_one(self) -> list[str]:
        """The modules that exactly one other module of the product imports."""
        users = Counter(each for imported in self.imports.values() for each in imported)
        return sorted(name for name, count in users.items() if count == 1)

    @property
    def repeated_classes(self) -> dict[str, list[str]]:
        """By name: the modules of public classes that stand in more than one."""
        places: dict[str, list[str]] = {}
        for name, module in self.modules.items():
            for node in module.tree.body:
                if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                    places.setdefault(node.name, []).append(name)
        return {name: found for name, found in sorted(places.items()) if len(found) > 1}

    @property
    def circles(self) -> list[set[str]]:
        """Modules that import each other, directly or not, also by imports inside functions."""
        reach: dict[str, set[str]] = {}
        for name in self.modules:
            reached: set[str] = set()
            unread = [name]
            while unread:
                new = self.imports[unread.pop()] - reached
                reached |= new
                unread += new
            reach[name] = reached
        circles = [{other for other in reach[name] if name in reach[other]} for name in reach if name in reach[name]]
        return [circle for at, circle in enumerate(circles) if circle not in circles[:at]]

    @property
    def long_calls(self) -> list[str]:
        """Calls with seven or more positional arguments, as module:line; a starred one counts as one."""
        return [
            f"{name}:{node.lineno}"
            for name, module in self.modules.items()
            for node in ast.walk(module.tree)
            if isinstance(node, ast.Call) and len(node.args) >= MANY_ARGUMENTS
        ]

    def walk(self, function: str) -> Walk:
        """Follow the calls of functions and classes by name, depth first, each once; methods are not followed."""
        start = next(name for name, module in self.modules.items() if function in module.functions)
        files, done, returns = [start], set(), 0

        def follow(name: str, entry: str) -> None:
            nonlocal returns
            if (name, entry) in done:
                return
            done.add((name, entry))
            module = self.modules[name]
            for body in module.functions.get(entry, []):
                for called in (node for node in ast.walk(body) if isinstance(node, ast.Call)):
                    if not isinstance(called.func, ast.Name):
                        continue
                    where, what = module.imported.get(called.func.id, (name, called.func.id))
                    if where not in self.modules or what not in self.modules[where].functions:
                        continue
                    if where != name and where in files:
                        returns += (where, what) not in done
                    elif where != name:
                        files.append(where)
                    follow(where, what)

        follow(start, function)
        return Walk(tuple(files), returns)


def table(structure: Structure) -> str:
    """Return the figures as a table in Markdown."""
    power, queue = structure.walk(POWER_DECISION), structure.walk(QUEUE_DECISION)
    rows = [
        ("product files", f"{len(structure.modules):,}"),
        ("lines", f"{sum(structure.lines):,}"),
        ("lines of a file (median)", f"{median(structure.lines):.0f}"),
        ("modules imported by one other only", f"{len(structure.imported_by_one):,}"),
        ("class names in more than one file", f"{len(structure.repeated_classes):,}"),
        ("circles of imports", f"{len(structure.circles):,}"),
        ("calls with 7 or more positional arguments", f"{len(structure.long_calls):,}"),
        ("files that the power decision passes / comes back to", f"{len(power.files)} / {power.returns}"),
        ("files that the queue decision passes / comes back to", f"{len(queue.files)} / {queue.returns}"),
    ]
    return "\n".join(["| figure | value |", "|---|---|", *(f"| {what} | {value} |" for what, value in rows)])


if __name__ == "__main__":
    print(table(Structure()))
