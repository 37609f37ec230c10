"""Named tuples of arrays by reference: what one kernel hands to another is an address.

To the compiler an array is seven values, a run's state some 500, and each call would hand over all of them. By
reference it is one; an attribute is read where it is asked for. What a named tuple holds never changes during
a run (what its arrays hold does), and the compiler is told so: it may read an attribute once before a loop.
"""

from __future__ import annotations

import functools
import hashlib
import inspect
import pickle
import struct
from collections.abc import Hashable
from pathlib import Path
from typing import Any

import numpy as np
from llvmlite import ir
from numba import typeof
from numba.core import cgutils, serialize, types
from numba.core.registry import cpu_target
from numba.core.typing.templates import AttributeTemplate
from numba.extending import (
    NativeValue,
    infer_getattr,
    lower_builtin,
    lower_getattr_generic,
    models,
    overload_method,
    register_model,
    type_callable,
    typeof_impl,
    unbox,
)


def by_reference(value: Any) -> Any:
    """Return a named tuple by reference, valid until the compiled caller returns; in plain Python, itself."""
    return value


_NO_KERNELS = ("__init__.py", "catalog.py", "entries.py", "parameters.py", "plugins.py", "seams_of.py")
"""Files beside kernels that no kernel depends on."""


@functools.cache
def source_of(*defined: Any) -> bytes:
    """Return a digest of the source on which kernels of these classes and functions depend.

    Of each the file that defines it and those beside it in its package; and of every kernel our own, here and in
    `procure.policies`. Numba itself sees only a kernel's own file change, none in which something stands that it calls.
    """
    ours = Path(__file__).parent
    files = {
        file
        for folder in (ours, ours.parent / "policies")
        for file in folder.glob("*.py")
        if file.name not in _NO_KERNELS
    }
    for one in defined:
        file = Path(inspect.getsourcefile(one) or "")
        files |= set(file.parent.glob("*.py")) if (file.parent / "__init__.py").is_file() else {file}
    return b"".join(_digest(file) for file in sorted(files) if file.is_file())


@functools.cache
def _digest(file: Path) -> bytes:
    return hashlib.sha256(file.read_bytes()).digest()


class Reference(types.Type):
    """The address of a named tuple; what it holds is read by attribute only, a named tuple again by reference."""

    between_kernels = True

    def __init__(self, of: Any) -> None:
        """Refer to a Numba type of named tuple; the name says which, since compiled functions are told apart by it.

        So is the source of its class, whose methods kernels call.
        """
        self.of = of
        self.instance_class = of.instance_class
        digest = hashlib.sha256(of.name.encode() + source_of(of.instance_class)).hexdigest()[:16]
        super().__init__(f"Reference({of.instance_class.__name__}.{digest})")

    def __reduce__(self) -> tuple:
        """Let an index of kernels be read where a class in it is not installed, or is another by now."""
        return _refer, (self.name, serialize.dumps(self.of))


def _refer(name: str, of: bytes) -> types.Type:
    try:
        found = Reference(pickle.loads(of))
    except (ImportError, AttributeError):
        return types.Opaque(name)
    return found if found.name == name else types.Opaque(name)


@register_model(Reference)
class _ReferenceModel(models.PrimitiveModel):
    def __init__(self, manager, reference) -> None:
        super().__init__(manager, reference, manager.lookup(reference.of).get_value_type().as_pointer())


@type_callable(by_reference)
def _type_by_reference(context):
    def of(value):
        if isinstance(value, types.BaseNamedTuple):
            return Reference(value)
        return value if isinstance(value, Reference) else None

    return of


@lower_builtin(by_reference, Reference)
def _as_it_is(context, builder, signature, arguments):
    return arguments[0]


@lower_builtin(by_reference, types.BaseNamedTuple)
def _by_reference(context, builder, signature, arguments):
    return cgutils.alloca_once_value(builder, arguments[0])


@infer_getattr
class _Attributes(AttributeTemplate):
    key = Reference

    def generic_resolve(self, reference, name):
        if name not in reference.of.fields:
            return None
        field = reference.of[reference.of.fields.index(name)]
        return Reference(field) if isinstance(field, types.BaseNamedTuple) else field


@lower_getattr_generic(Reference)
def _read_attribute(context, builder, reference, address, name):
    place = reference.of.fields.index(name)
    field = reference.of[place]
    at = cgutils.gep_inbounds(builder, address, 0, place)
    if isinstance(field, types.BaseNamedTuple):
        return at
    if isinstance(field, types.Array) and field.layout == "C":
        return _read_array(context, builder, field, at)
    return _read(builder, at)


def _read(builder, at):
    value = builder.load(at)
    value.set_metadata("invariant.load", builder.module.add_metadata([]))
    return value


def _read_array(context, builder, field, at):
    """Read the address and the shape of an array; all else follows from them, since rows are contiguous."""
    itemsize = context.get_constant(types.intp, context.get_abi_sizeof(context.get_data_type(field.dtype)))
    array = ir.Constant(context.get_value_type(field), None)
    members = context.data_model_manager[field]
    data, shape, strides = (members.get_field_position(name) for name in ("data", "shape", "strides"))
    array = builder.insert_value(array, _read(builder, cgutils.gep_inbounds(builder, at, 0, data)), data)
    array = builder.insert_value(array, itemsize, members.get_field_position("itemsize"))
    count, stride = context.get_constant(types.intp, 1), itemsize
    for axis in reversed(range(field.ndim)):
        array = builder.insert_value(array, stride, (strides, axis))
        extent = _read(builder, cgutils.gep_inbounds(builder, at, 0, shape, axis))
        array = builder.insert_value(array, extent, (shape, axis))
        count, stride = builder.mul(count, extent), builder.mul(stride, extent)
    return builder.insert_value(array, count, members.get_field_position("nitems"))


class Held:
    """A named tuple laid out in memory as kernels read it.

    To take a state of some 100 arrays apart, Numba compiles more than the policy itself has.
    """

    __slots__ = ("address", "kept", "kind")

    def __init__(self, kind: Reference, layout: struct.Struct, value: Any) -> None:
        """Lay out a value of a kind."""
        words: list[Any] = []
        _lay_out(words, kind.of, value)
        memory = layout.pack(*words)
        self.kept = np.frombuffer(memory.ljust(len(memory) // 8 * 8 + 8, b"\0"), np.int64).copy(), value
        self.kind, self.address = kind, self.kept[0].__array_interface__["data"][0]


def held(value: Any) -> Any:
    """Return a named tuple as a kernel takes it from Python; what cannot be laid out, itself."""
    if not (isinstance(value, tuple) and hasattr(value, "_fields")):
        return value
    form = form_of(value)
    if form not in _LAYOUTS:
        kind: Any = typeof(value)
        layout, context = struct.Struct(_layout(kind)), cpu_target.target_context
        fits = layout.size and layout.size == context.get_abi_sizeof(context.get_value_type(kind))
        _LAYOUTS[form] = (Reference(kind), layout) if fits else None
    found = _LAYOUTS[form]
    return Held(*found, value) if found else value


_LAYOUTS: dict[Hashable, tuple[Reference, struct.Struct] | None] = {}


def form_of(argument: Any) -> Hashable:
    """Return what Numba's type of an argument turns on: it takes milliseconds to find a state's types."""
    if isinstance(argument, tuple):
        return type(argument), tuple(form_of(one) for one in argument)
    if isinstance(argument, np.ndarray):
        flags = argument.flags
        return argument.dtype, argument.ndim, flags.c_contiguous, flags.f_contiguous, flags.writeable, flags.aligned
    plain = isinstance(argument, bool | float) or (type(argument) is int and -(1 << 63) <= argument < 1 << 63)
    kind: Any = type(argument) if plain else typeof(argument)
    return (kind,)


_NUMBERS = {types.int64: "q", types.float64: "d", types.boolean: "?", types.none: "q"}


def _layout(kind: Any) -> str:
    """Return how the compiler lays out a type, as `struct` says it; empty if it is another than these."""
    if isinstance(kind, types.Array):
        return "q" * (5 + 2 * kind.ndim)
    if not isinstance(kind, types.BaseNamedTuple):
        return _NUMBERS.get(kind, "")
    named: Any = kind
    fields = [_layout(one) for one in named.types]
    return f"0q{''.join(fields)}0q" if all(fields) else ""


def _lay_out(words: list[Any], kind: Any, value: Any) -> None:
    for of, one in zip(kind.types, value, strict=True):
        if isinstance(of, types.Array):
            words += (0, 0, one.size, one.itemsize, one.__array_interface__["data"][0], *one.shape, *one.strides)
        elif isinstance(of, types.BaseNamedTuple):
            _lay_out(words, of, one)
        else:
            words.append(0 if one is None else one)


@typeof_impl.register(Held)
def _type_of_held(value, context):
    return value.kind


@unbox(Reference)
def _address_of_held(kind, value, c):
    number = c.pyapi.object_getattr_string(value, "address")
    address = c.pyapi.long_as_voidptr(number)
    c.pyapi.decref(number)
    return NativeValue(c.builder.bitcast(address, c.context.get_value_type(kind)))


_METHOD = {"_nrt": False, "error_model": "numpy", "no_cpython_wrapper": True, "no_cfunc_wrapper": True}
_FINDERS = (
    lambda name: lambda self: getattr(self.instance_class, name, None),
    lambda name: lambda self, a: getattr(self.instance_class, name, None),
    lambda name: lambda self, a, b: getattr(self.instance_class, name, None),
    lambda name: lambda self, a, b, c: getattr(self.instance_class, name, None),
    lambda name: lambda self, a, b, c, d: getattr(self.instance_class, name, None),
    lambda name: lambda self, a, b, c, d, e: getattr(self.instance_class, name, None),
)


def compile_method(name: str, n_arguments: int) -> None:
    """Let kernels call a method of a named tuple: its class says which, and its source is compiled with the caller.

    In plain Python such a call is a call of the method, and nothing else. No field of a named tuple that a kernel
    takes may have the method's name: the compiler would read the field as the method.
    """
    for kind in (Reference, types.BaseNamedTuple):
        overloading: Any = overload_method
        overloading(kind, name, jit_options=_METHOD, strict=False)(_FINDERS[n_arguments](name))
