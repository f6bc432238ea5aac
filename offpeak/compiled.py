"""The decorators for compiled kernels: numba, cached on disk, with types that a checker can follow.

numba keys its cache only by the source file of a kernel, so a kernel would keep using old code that it inlines from
another file. Therefore each version of a file with kernels and of all its imports has its own cache folder, below
$NUMBA_CACHE_DIR, else below the user's cache folder.
"""

import fcntl
import hashlib
import os
import re
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any, ParamSpec, TypeVar, cast

import numba
import numpy as np
from numba.core.codegen import JITCodeLibrary, JITCPUCodegen
from numba.core.compiler_lock import global_compiler_lock

index = np.uintp
"""An unsigned index: numba need not check at each access whether to count from the end of the array."""

P = ParamSpec("P")
R = TypeVar("R")

ROOT = Path(__file__).resolve().parents[1]
WITH_KERNELS = ("offpeak", "predictors", "plugin", "sim_backend")
# Listed by name: an installed offpeak shares its folder with other packages.
OURS = (*WITH_KERNELS, "power", "services", "studies", "ui", "benchmarks")
IMPORTED = re.compile(rb"^from ([\w.]+) import (\([^)]*\)|.*)|^import ([\w.]+)", re.MULTILINE)
NAME = re.compile(rb"\w+")
BEGAN_NS = time.time_ns()
_DECORATING = threading.Lock()


def cache_base() -> Path:
    """Return the folder that holds the machine code of all sources, also of earlier ones."""
    given = os.environ.get("NUMBA_CACHE_DIR")
    caches = os.environ.get("XDG_CACHE_HOME")
    return Path(given) if given else (Path(caches) if caches else Path.home() / ".cache") / "offpeak"


def cache_folder(source: Path) -> Path:
    """Return the folder for the machine code of one file's kernels, named by a hash of the file and its imports."""
    digest = hashlib.sha256(bytes(source))  # numba keeps the code of each clone apart
    for each in sources_of(source):
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
        if parts[0] not in OURS:
            continue
        folder = ROOT.joinpath(*parts)
        candidates = [folder.with_suffix(".py"), folder / "__init__.py"]
        candidates += [folder / f"{name.decode()}.py" for name in NAME.findall(names)]
        found |= {path for path in candidates if path.is_file()}
    return frozenset(found)


# As fast as with more, and compiled a tenth sooner.
numba.config.OPT = type(numba.config.OPT)(1)  # type: ignore[attr-defined]


# Options that numba has but does not document. Without reference counts (`_nrt`) an allocation is a compile error; a
# function without wrappers cannot be called from Python and compiles much faster. Whether a function is merged is
# inherited from its caller unless it is said.
UNCOUNTED: dict[str, Any] = {"_nrt": False}
BARE: dict[str, Any] = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True}
MERGED: dict[str, Any] = {"forceinline": True}
CALLED: dict[str, Any] = {"forceinline": False}


def kernel(function: Callable[P, R]) -> Callable[P, R]:
    """Compile `function` on its first call and keep the machine code in numba's cache directory."""
    return _compiled(function)


def in_place(function: Callable[P, R]) -> Callable[P, R]:
    """Compile a kernel that allocates nothing: it only changes the arrays that it is given.

    Such a kernel needs no reference counts. numba would count each array of a tuple at each access, which makes code
    over a state of many arrays several times slower.
    """
    return _compiled(function, **UNCOUNTED)


def part(function: Callable[P, R]) -> Callable[P, R]:
    """Compile a piece of in-place kernels: it is merged into them and cannot be called from Python."""
    return _without_code(function, **UNCOUNTED, **BARE, **MERGED)


class _Library(JITCodeLibrary):
    """The code of one function. What is only merged into others is neither optimized nor turned into machine code.

    numba would do both anew for each function on the way up to the kernel.
    """

    def _optimize_final_module(self) -> None:
        if _HAS_CODE[-1]:
            super()._optimize_final_module()  # type: ignore[no-untyped-call]

    def _finalize_final_module(self) -> None:
        if _HAS_CODE[-1]:
            super()._finalize_final_module()  # type: ignore[no-untyped-call]
        else:
            self._finalize_dynamic_globals()  # type: ignore[no-untyped-call]
            self._finalized = True


def _set_env(codegen: JITCPUCodegen, name: str, env: object) -> None:
    if _HAS_CODE[-1]:
        _SET_ENV(codegen, name, env)  # type: ignore[no-untyped-call]


_HAS_CODE = [True]
"""Whether the function that numba compiles gets machine code, the innermost last. numba's lock guards it."""
_SET_ENV = JITCPUCodegen.set_env
JITCPUCodegen.set_env = _set_env  # type: ignore[method-assign]
JITCPUCodegen._library_class = _Library


@contextmanager
def _compiling(*, has_code: bool) -> Iterator[None]:
    _HAS_CODE.append(has_code)
    try:
        yield
    finally:
        _HAS_CODE.pop()


def apart(function: Callable[P, R]) -> Callable[P, R]:
    """Compile a large piece of in-place kernels once; they call it, which saves minutes of compilation."""
    return _without_code(function, **UNCOUNTED, **BARE, **CALLED)


def _without_code(function: Callable[P, R], **options: Any) -> Callable[P, R]:
    dispatcher = numba.njit(nogil=True, **options)(function)
    compile_ = dispatcher.compile

    def compile_part(signature: Any) -> Any:
        with global_compiler_lock, _compiling(has_code=False):
            return compile_(signature)

    dispatcher.compile = compile_part
    return cast(Callable[P, R], dispatcher)


def _compiled(function: Callable[P, R], **options: Any) -> Callable[P, R]:
    folder = _folder_once(function.__code__.co_filename)
    if folder is None:
        return cast(Callable[P, R], numba.njit(nogil=True, **options)(function))
    # numba reads it when a kernel is decorated, and another thread may be importing another file with kernels.
    with _DECORATING:
        numba.config.CACHE_DIR = str(folder)  # type: ignore[attr-defined]
        dispatcher = numba.njit(cache=True, nogil=True, **options)(function)
    dispatcher.compile = _by_one_process(dispatcher.compile, folder / f"{function.__qualname__}.lock")
    return cast(Callable[P, R], dispatcher)


@cache
def _folder_once(source: str) -> Path | None:
    """Return the folder for the machine code of a file; None if the user may write none.

    None too where memory may hold older sources than the disk does: a part that was loaded before an upgrade would be
    kept under the name of the new one, for all later processes.
    """
    path = Path(source)
    changed_ns = max(each.stat().st_ctime_ns for each in sources_of(path))
    if changed_ns > BEGAN_NS:
        return None
    folder = cache_folder(path)
    return folder if _may_write(folder) else None


def _may_write(folder: Path) -> bool:
    """Return whether the user may write into the folder, or create it."""
    # Path.exists raises PermissionError below a folder of another user.
    existing = next(path for path in (folder, *folder.parents) if os.access(path, os.F_OK))
    return existing.is_dir() and os.access(existing, os.W_OK | os.X_OK)


def _by_one_process(compile_: Callable[[Any], Any], lock: Path) -> Callable[[Any], Any]:
    """Let other processes wait for the machine code that one of them is about to keep, instead of making it too."""

    def compile_or_load(signature: Any) -> Any:
        # numba's own lock first: a thread that waited for it with the file's lock would keep out the one that has it.
        with global_compiler_lock, _locked(lock), _compiling(has_code=True):
            return compile_(signature)

    return compile_or_load


@contextmanager
def _locked(file: Path) -> Iterator[None]:
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(file, os.O_RDWR | os.O_CREAT, 0o600)
    except OSError:
        # A cache that cannot be written: numba reports that if it matters.
        yield
        return
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
