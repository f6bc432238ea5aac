"""Named tuples of arrays that kernels take by reference: numba's own take each array of them as seven arguments.

A kernel over a state of a hundred arrays would get a thousand arguments, and each use of the state would be a copy of
them for LLVM to take apart, which takes minutes. By reference, a kernel gets one address, where it finds the addresses
and shapes of the arrays.
"""

# numba types little of what extensions use.
# mypy: disable-error-code="attr-defined, import-untyped, no-untyped-call, override, untyped-decorator"

import hashlib
from typing import Any, TypeVar

from llvmlite import ir
from numba.core import cgutils, types
from numba.core.datamodel import models, register_default
from numba.core.imputils import lower_getattr_generic
from numba.core.pythonapi import NativeValue, unbox
from numba.core.typing.templates import AttributeTemplate, infer_getattr
from numba.core.typing.typeof import typeof_impl
from numba.np.arrayobj import get_itemsize, populate_array

WORD = ir.IntType(64)
WORD_BYTES = 8

C = TypeVar("C", bound=type)


class Reference(types.Type):
    """The type of a named tuple that lies in memory; of its members, named tuples lie there with it.

    A member is an array, of which data, shape and strides are kept, or a number.
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


def by_reference(named_tuple: C) -> C:
    """Let kernels take the tuples of a class by reference.

    They must not return arrays of them, whose owners they do not know. A tuple that a kernel makes
    itself stays a value.
    """
    typeof_tuple = typeof_impl.dispatch(tuple)

    @typeof_impl.register(named_tuple)
    def _(value: Any, context: Any) -> Reference:
        return Reference(typeof_tuple(value, context))

    return named_tuple


def _words(member: types.Type) -> int:
    if isinstance(member, types.Array):
        return int(1 + 2 * member.ndim)
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
