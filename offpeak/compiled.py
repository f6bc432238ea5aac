"""The decorators for compiled kernels: numba, cached on disk, with types that a checker can follow.

numba keys its cache only by the source file of a kernel, so a kernel would keep using old code that it inlines from
another file. Therefore each version of a file with kernels and of all its imports has its own cache folder, below
$NUMBA_CACHE_DIR, else below the user's cache folder.
"""

import hashlib
import os
import re
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, update_wrapper
from importlib import import_module
from pathlib import Path
from typing import Any, ParamSpec, TypeVar, cast

import numpy as np

index = np.uintp
"""An unsigned index: numba need not check at each access whether to count from the end of the array."""

P = ParamSpec("P")
R = TypeVar("R")
C = TypeVar("C", bound=type)

ROOT = Path(__file__).resolve().parents[1]
OWN_PACKAGES = ("offpeak", "offpeak_studies", "benchmarks")
IMPORTED = re.compile(rb"^from ([\w.]+) import (\([^)]*\)|.*)|^import ([\w.]+)", re.MULTILINE)
NAME = re.compile(rb"\w+")
BEGAN_NS = time.time_ns()
COMPILER = Path(__file__).with_name("compiler.py")


def cache_base() -> Path:
    """Return the folder that holds the machine code of all sources, also of earlier ones."""
    given = os.environ.get("NUMBA_CACHE_DIR")
    caches = os.environ.get("XDG_CACHE_HOME")
    return Path(given) if given else (Path(caches) if caches else Path.home() / ".cache") / "offpeak"


def cache_folder(source: Path) -> Path:
    """Return the folder for the machine code of one file's kernels, named by a hash of the file and its imports.

    All clones and installations with the same sources share it.
    """
    digest = hashlib.sha256()
    for each in (COMPILER, *sources_of(source)):
        digest.update(_text(each))
    return cache_base() / f"{source.stem}-{digest.hexdigest()[:16]}"


def sources_of(source: Path) -> tuple[Path, ...]:
    """Return a file and those of our files that it imports, directly or not."""
    found, unread = {source}, [source]
    while unread:
        imported = _imported(unread.pop()) - found
        unread += imported
        found |= imported
    return tuple(sorted(found))


@cache
def _text(source: Path) -> bytes:
    return source.read_bytes()


@cache
def _imported(source: Path) -> frozenset[Path]:
    """Return our files that one imports from; `from package import module` imports both."""
    found = set()
    for module, names, plain in IMPORTED.findall(_text(source)):
        parts = (module or plain).decode().split(".")
        if parts[0] not in OWN_PACKAGES:
            continue
        folder = module_folder(parts)
        candidates = [folder.with_suffix(".py"), folder / "__init__.py"]
        candidates += [folder / f"{name.decode()}.py" for name in NAME.findall(names)]
        found |= {path for path in candidates if path.is_file()}
    return frozenset(found)


def module_folder(parts: Sequence[str]) -> Path:
    """Return the folder of a module's package, or its file without the suffix."""
    # A clone has the studies in a folder of their own.
    clone = ROOT / "studies"
    root = clone if parts[0] == "offpeak_studies" and (clone / "offpeak_studies").is_dir() else ROOT
    return root.joinpath(*parts)


# Options that numba has but does not document. Without reference counts (`_nrt`) an allocation is a compile error; a
# function without wrappers cannot be called from Python and compiles much faster. Whether a function is merged is
# inherited from its caller unless it is said.
UNCOUNTED: dict[str, Any] = {"_nrt": False}
BARE: dict[str, Any] = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True}
MERGED: dict[str, Any] = {"forceinline": True}
CALLED: dict[str, Any] = {"forceinline": False}


SLOW_S = 0.05
"""The processor time of a call in Python after which a process loads numba."""


@dataclass
class Kernel:
    """A function that numba compiles at its first call.

    numba takes 60 MiB of memory and more than a second to load. A process that does little, such as an agent at rest,
    does without it: a kernel that is `python_first` runs as Python until a call takes SLOW_S. From then on, or if
    another kernel has loaded numba, the process calls the machine code of all.
    """

    function: Callable[..., Any]
    options: Mapping[str, Any]
    has_code: bool = True
    python_first: bool = False
    _dispatcher: Any = None

    def __post_init__(self) -> None:
        """Take the name and the documentation of the function."""
        update_wrapper(self, self.function)

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        """Run it."""
        if self.has_code and not (self.python_first and "offpeak.compiler" not in sys.modules):
            return self.dispatcher(*arguments, **named)
        begun_s = time.thread_time()
        result = self.function(*arguments, **named)
        if self.has_code and time.thread_time() - begun_s > SLOW_S:
            import_module("offpeak.compiler")
        return result

    def __reduce__(self) -> str:
        """Pickle it by its name."""
        return self.function.__qualname__

    @property
    def dispatcher(self) -> Any:
        """What numba makes of it."""
        if self._dispatcher is None:
            from offpeak.compiler import make_dispatcher

            folder = folder_once(self.function.__code__.co_filename) if self.has_code else None
            # No lock: a thread that compiles has numba's. Where two threads make one, the later one is used.
            self._dispatcher = make_dispatcher(self.function, folder, has_code=self.has_code, **self.options)
        return self._dispatcher

    @property
    def _numba_type_(self) -> Any:
        """The type by which other kernels call it."""
        return self.dispatcher._numba_type_


def kernel(function: Callable[P, R]) -> Callable[P, R]:
    """Compile `function` on its first call and keep the machine code in numba's cache directory."""
    return cast(Callable[P, R], Kernel(function, {}))


def in_place(function: Callable[P, R]) -> Callable[P, R]:
    """Compile a kernel that allocates nothing: it only changes the arrays that it is given.

    Such a kernel needs no reference counts. numba would count each array of a tuple at each access, which makes code
    over a state of many arrays several times slower.
    """
    return cast(Callable[P, R], Kernel(function, UNCOUNTED))


def python_first(kernel: Callable[P, R]) -> Callable[P, R]:
    """Let Python run a kernel as long as it is quick enough and numba is not loaded."""
    cast(Kernel, kernel).python_first = True
    return kernel


def part(function: Callable[P, R]) -> Callable[P, R]:
    """Compile a piece of in-place kernels: it is merged into them and cannot be called from Python."""
    return cast(Callable[P, R], Kernel(function, UNCOUNTED | BARE | MERGED, has_code=False))


def apart(function: Callable[P, R]) -> Callable[P, R]:
    """Compile a large piece of in-place kernels once; they call it, which saves minutes of compilation."""
    return cast(Callable[P, R], Kernel(function, UNCOUNTED | BARE | CALLED, has_code=False))


class Instruction(Kernel):
    """A function that kernels replace by a machine instruction."""

    @property
    def _numba_type_(self) -> Any:
        from offpeak.compiler import type_of_instruction

        return type_of_instruction(self.function.__name__)


def instruction(function: Callable[P, R]) -> Callable[P, R]:
    """Let kernels that call `function` use the machine instruction of its name in `offpeak.compiler`."""
    return cast(Callable[P, R], Instruction(function, {}, has_code=False))


def by_reference(named_tuple: C) -> C:
    """Let kernels take the tuples of a class by reference.

    They must not return arrays of them, whose owners they do not know. A tuple that a kernel makes
    itself stays a value.
    """
    named_tuple.is_by_reference = True  # type: ignore[attr-defined]
    return named_tuple


@cache
def folder_once(source: str) -> Path | None:
    """Return the folder for the machine code of a file; None if the user may write none.

    None too where memory may hold older sources than the disk does: a part that was loaded before an upgrade would be
    kept under the name of the new one, for all later processes.
    """
    path = Path(source)
    changed_ns = max(each.stat().st_ctime_ns for each in (COMPILER, *sources_of(path)))
    if changed_ns > BEGAN_NS:
        return None
    folder = cache_folder(path)
    return folder if _may_write(folder) else None


def _may_write(folder: Path) -> bool:
    """Return whether the user may write into the folder, or create it."""
    # Path.exists raises PermissionError below a folder of another user.
    existing = next(path for path in (folder, *folder.parents) if os.access(path, os.F_OK))
    return existing.is_dir() and os.access(existing, os.W_OK | os.X_OK)
