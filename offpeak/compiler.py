"""What numba compiles kernels with: machine code of one file after another, and named tuples by reference.

A member of a tuple that is None is known at compilation: code behind `if state.member is not None` is left out then. So
one source serves the cases that have nodes that sleep and, faster, those that have none.

`offpeak.compiled` loads it at the first call of a kernel.

numba's own tuples take each of their arrays as seven arguments. A kernel over a state of a hundred arrays would get a
thousand arguments, and each use of the state would be a copy of them for LLVM to take apart, which takes minutes. By
reference, a kernel gets one address, where it finds the addresses and shapes of the arrays.
"""

# numba types little of what extensions use.
# mypy: disable-error-code="attr-defined, import-untyped, no-untyped-call, override, untyped-decorator"

import fcntl
import hashlib
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

import numba
from llvmlite import ir
from numba.core import cgutils, types
from numba.core import ir as numba_ir
from numba.core.codegen import JITCodeLibrary, JITCPUCodegen
from numba.core.compiler import CompilerBase, DefaultPassBuilder
from numba.core.compiler_lock import global_compiler_lock
from numba.core.compiler_machinery import FunctionPass, register_pass
from numba.core.datamodel import models, register_default
from numba.core.imputils import lower_getattr_generic
from numba.core.ir_utils import get_definition, guard
from numba.core.pythonapi import NativeValue, unbox
from numba.core.registry import cpu_target
from numba.core.typing.templates import AttributeTemplate, infer_getattr
from numba.core.typing.typeof import typeof_impl
from numba.core.untyped_passes import RewriteSemanticConstants
from numba.extending import intrinsic
from numba.np.arrayobj import get_itemsize, populate_array

# As fast as with more, and compiled a tenth sooner.
numba.config.OPT = type(numba.config.OPT)(1)
_DECORATING = threading.Lock()


def make_dispatcher(function: Callable[..., Any], folder: Path | None, *, has_code: bool, **options: Any) -> Any:
    """Return what compiles a function, and keeps its machine code in the folder; without code, others only merge it."""
    if folder is None:
        dispatcher = numba.njit(nogil=True, pipeline_class=_Compiler, **options)(function)
    else:
        with _kept_in(folder):
            dispatcher = numba.njit(cache=True, nogil=True, pipeline_class=_Compiler, **options)(function)
    compile_, lock = dispatcher.compile, folder / f"{function.__qualname__}.lock" if folder else None

    def compile_or_load(signature: Any) -> Any:
        # numba's own lock first: a thread that waited for it with the file's lock would keep out the one that has it.
        with global_compiler_lock, _locked(lock), _compiling(has_code=has_code):
            return compile_(signature)

    dispatcher.compile = compile_or_load
    return dispatcher


@contextmanager
def _kept_in(folder: Path) -> Iterator[None]:
    """Let what is decorated meanwhile keep its machine code in the folder: numba asks a locator at that moment."""
    # Another thread may be loading another file's kernels, and other packages have their own places.
    with _DECORATING:
        ContentLocator.folder, before = folder, numba.config.CACHE_LOCATOR_CLASSES
        numba.config.CACHE_LOCATOR_CLASSES = f"{__name__}.{ContentLocator.__name__}"
        try:
            yield
        finally:
            numba.config.CACHE_LOCATOR_CLASSES = before


class ContentLocator:
    """Tells numba where the machine code of a kernel is: numba's own locators keep that of each clone apart.

    numba imports it by its name; the methods are those of numba's locators.
    """

    folder = Path()

    def __init__(self, function: Callable[..., Any]) -> None:
        self._folder, self._line = self.folder, function.__code__.co_firstlineno

    @classmethod
    def from_function(cls, function: Callable[..., Any], source: str) -> "ContentLocator":  # noqa: ARG003
        """Return the locator of a function."""
        return cls(function)

    def ensure_cache_path(self) -> None:
        """Create the folder."""
        self._folder.mkdir(parents=True, exist_ok=True)

    def get_cache_path(self) -> str:
        """Return the folder, which is named by the content of the sources."""
        return str(self._folder)

    def get_source_stamp(self) -> str:
        """Return a stamp that is always equal: another state of the sources has another folder."""
        return ""

    def get_disambiguator(self) -> str:
        """Return the line of the function, which tells apart functions of one name."""
        return str(self._line)


@register_pass(mutates_CFG=False, analysis_only=False)
class _AbsentMembers(FunctionPass):
    """Replaces each member of an argument that is None by the constant, so that numba drops the branches without it."""

    _name = "absent_members"

    def __init__(self) -> None:
        FunctionPass.__init__(self)

    def run_pass(self, state: Any) -> bool:
        """Do so in one function."""
        found = False
        for block in state.func_ir.blocks.values():
            for statement in block.find_insts(numba_ir.Assign):
                value = statement.value
                if _type_of(state, value) == types.none and isinstance(value, numba_ir.Expr):
                    statement.value = numba_ir.Const(None, statement.loc)
                    definitions = state.func_ir._definitions[statement.target.name]
                    definitions[definitions.index(value)] = statement.value
                    found = True
        return found


def _type_of(state: Any, value: Any) -> types.Type | None:
    """Return the type of an argument of the function or of a member of one, None for any other value."""
    if isinstance(value, numba_ir.Arg):
        return cast("types.Type", state.args[value.index])
    if not isinstance(value, numba_ir.Expr) or value.op != "getattr":
        return None
    owner = _type_of(state, guard(get_definition, state.func_ir, value.value))
    if isinstance(owner, Reference):
        return cast("types.Type | None", owner.members.get(value.attr, (None, 0))[0])
    if isinstance(owner, types.BaseNamedTuple) and value.attr in owner.fields:
        return cast("types.Type", owner.types[owner.fields.index(value.attr)])
    return None


class _Compiler(CompilerBase):
    """numba's compiler with that pass before it drops branches whose condition is constant."""

    def define_pipelines(self) -> list[Any]:
        """Return numba's passes and ours."""
        passes = DefaultPassBuilder.define_nopython_pipeline(self.state)
        passes.add_pass_after(_AbsentMembers, RewriteSemanticConstants)
        passes.finalize()
        return [passes]


class _Library(JITCodeLibrary):
    """The code of one function. What is only merged into others is neither optimized nor turned into machine code.

    numba would do both anew for each function on the way up to the kernel.
    """

    def _optimize_final_module(self) -> None:
        if _HAS_CODE[-1]:
            super()._optimize_final_module()

    def _finalize_final_module(self) -> None:
        if _HAS_CODE[-1]:
            super()._finalize_final_module()
        else:
            self._finalize_dynamic_globals()
            self._finalized = True


def _set_env(codegen: JITCPUCodegen, name: str, env: object) -> None:
    if _HAS_CODE[-1]:
        _SET_ENV(codegen, name, env)


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


@contextmanager
def _locked(file: Path | None) -> Iterator[None]:
    """Let other processes wait for the machine code that this one is about to keep, instead of making it too."""
    if file is None:
        yield
        return
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


def type_of_instruction(name: str) -> Any:
    """Return the type of a machine instruction that numba does not offer by name."""
    return cpu_target.typing_context.resolve_value_type(INSTRUCTIONS[name])


@intrinsic
def _popcount(typing_context: Any, word: Any) -> Any:  # noqa: ARG001

    def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:  # noqa: ARG001
        return builder.ctpop(arguments[0])

    return types.int64(types.uint64), emit


@intrinsic
def _lowest_bit(typing_context: Any, word: Any) -> Any:  # noqa: ARG001

    def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:  # noqa: ARG001
        return builder.cttz(arguments[0], cgutils.true_bit)

    return types.int64(types.uint64), emit


@intrinsic
def _highest_bit(typing_context: Any, word: Any) -> Any:  # noqa: ARG001

    def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:  # noqa: ARG001
        above = builder.ctlz(arguments[0], cgutils.true_bit)
        return builder.sub(above.type(63), above)

    return types.int64(types.uint64), emit


@intrinsic
def _product64(typing_context: Any, one: Any, other: Any) -> Any:  # noqa: ARG001

    def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:  # noqa: ARG001
        return builder.mul(*arguments)

    return types.int64(types.int64, types.int64), emit


INSTRUCTIONS = {"product64": _product64, "popcount": _popcount, "lowest_bit": _lowest_bit, "highest_bit": _highest_bit}

WORD = ir.IntType(64)
WORD_BYTES = 8


class Reference(types.Type):
    """The type of a named tuple that lies in memory; of its members, named tuples lie there with it.

    A member is an array, of which data, shape and strides are kept, a number, or None, of which nothing is.
    """

    def __init__(self, tuple_type: types.BaseNamedTuple) -> None:
        self.tuple_type = tuple_type
        self.members, self.words = {}, 0
        for name, member in zip(tuple_type.fields, tuple_type.types, strict=True):
            member = Reference(member) if isinstance(member, types.BaseNamedTuple) else member
            self.members[name] = member, self.words
            self.words += _words(member)
        digest = hashlib.sha256(repr([(name, str(member)) for name, (member, _) in self.members.items()]).encode())
        super().__init__(name=f"{tuple_type.instance_class.__qualname__}.{digest.hexdigest()[:16]}")


_typeof_tuple = typeof_impl.dispatch(tuple)


@typeof_impl.register(tuple)
def _typeof(value: Any, context: Any) -> types.Type:
    plain = _typeof_tuple(value, context)
    return Reference(plain) if getattr(value, "is_by_reference", False) else plain


def _words(member: types.Type) -> int:
    if isinstance(member, types.Array):
        return int(1 + 2 * member.ndim)
    if member == types.none:
        return 0
    return member.words if isinstance(member, Reference) else 1


@register_default(Reference)
class _Address(models.PrimitiveModel):
    def __init__(self, manager: Any, reference: Reference) -> None:
        super().__init__(manager, reference, ir.IntType(8).as_pointer())


@infer_getattr
class _Members(AttributeTemplate):
    key = Reference

    def generic_resolve(self, reference: Reference, name: str) -> types.Type | None:
        member, _ = reference.members.get(name, (None, 0))
        return member


@unbox(Reference)
def _unbox(reference: Reference, value: ir.Value, c: Any) -> NativeValue:
    """Keep the members in the caller's frame."""
    memory = cgutils.alloca_once(c.builder, WORD, size=reference.words)
    address = c.builder.bitcast(memory, ir.IntType(8).as_pointer())
    is_error = cgutils.alloca_once_value(c.builder, cgutils.false_bit)
    counted = _keep(reference, value, c, address, is_error)

    def release() -> None:
        for member, array in counted:
            c.context.nrt.decref(c.builder, member, array)

    cleanup = release if c.context.enable_nrt else None
    return NativeValue(address, is_error=c.builder.load(is_error), cleanup=cleanup)


def _keep(
    reference: Reference, value: ir.Value, c: Any, memory: ir.Value, is_error: ir.Value
) -> list[tuple[types.Type, ir.Value]]:
    """Keep the members of a tuple, and return its arrays, which may be counted."""
    arrays = []
    for place, (member, first) in enumerate(reference.members.values()):
        item = c.pyapi.tuple_getitem(value, place)
        at = _at(c.builder, memory, first, ir.IntType(8))
        if isinstance(member, Reference):
            arrays += _keep(member, item, c, at, is_error)
            continue
        if member == types.none:
            continue
        native = c.unbox(member, item)
        with c.builder.if_then(native.is_error, likely=False):
            c.builder.store(cgutils.true_bit, is_error)
        words = [c.context.data_model_manager[member].as_data(c.builder, native.value)]
        if isinstance(member, types.Array):
            array = c.context.make_array(member)(c.context, c.builder, value=native.value)
            shape, strides = (
                cgutils.unpack_tuple(c.builder, each, member.ndim) for each in (array.shape, array.strides)
            )
            words = [array.data, *shape, *strides]
            arrays.append((member, native.value))
        for word, each in enumerate(words):
            c.builder.store(each, _at(c.builder, at, word, each.type))
    return arrays


def _at(builder: Any, address: ir.Value, word: int, kind: ir.Type) -> ir.Value:
    return builder.bitcast(builder.gep(address, [WORD(word * WORD_BYTES)]), kind.as_pointer())


@lower_getattr_generic(Reference)
def _getattr(context: Any, builder: Any, reference: Reference, address: ir.Value, name: str) -> ir.Value:
    member, first = reference.members[name]
    at = builder.gep(address, [WORD(first * WORD_BYTES)])
    if isinstance(member, Reference):
        return at
    if member == types.none:
        return context.get_dummy_value()
    if not isinstance(member, types.Array):
        kept = _load(builder, at, 0, context.get_data_type(member))
        return context.data_model_manager[member].from_data(builder, kept)
    array = context.make_array(member)(context, builder)
    sizes = [_load(builder, at, word, WORD) for word in range(1, _words(member))]
    populate_array(
        array,
        data=_load(builder, at, 0, array.data.type),
        shape=sizes[: member.ndim],
        strides=sizes[member.ndim :],
        itemsize=context.get_constant(types.intp, get_itemsize(context, member)),
        meminfo=None,
    )
    return array._getvalue()


def _load(builder: Any, address: ir.Value, word: int, kind: ir.Type) -> ir.Value:
    """Load what stays the same for as long as the kernel runs, whatever it writes into arrays."""
    loaded = builder.load(_at(builder, address, word, kind))
    loaded.set_metadata("invariant.load", builder.module.add_metadata([]))
    return loaded
