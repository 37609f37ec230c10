"""The seams of a scheduler: what an order, a hold-back and a place answer to a kernel.

Each is a class of named tuples with the methods below, of plain Python that Numba can compile too: a kernel calls the
method of the class that it is given, in plain Python Python does. `order`, `hold` and `place` are decorators that check
such a class and give it the methods that it need not have.

A method reads the state and its own fields by attribute only, and makes no arrays; what it needs, the tuple holds.
"""

from __future__ import annotations

import functools
import hashlib
import inspect
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from llvmlite import ir
from numba.core import cgutils, serialize, types
from numba.core.typing.templates import AttributeTemplate
from numba.extending import (
    infer_getattr,
    lower_builtin,
    lower_getattr_generic,
    models,
    overload_method,
    register_model,
    type_callable,
)


def by_reference(value: Any) -> Any:
    """Return a named tuple by reference, valid until the compiled caller returns; in plain Python, itself.

    To the compiler an array is seven values, a run's state some 500, and each call would hand over all of them. By
    reference it is one; an attribute is read where it is asked for. What a named tuple holds never changes during a run
    (what its arrays hold does), and the compiler is told so: it may read an attribute once before a loop.
    """
    return value


_NO_KERNELS = ("__init__.py", "catalog.py", "entries.py", "parameters.py")
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
    return lambda value: Reference(value) if isinstance(value, types.BaseNamedTuple) else None


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


_METHOD = {"_nrt": False, "error_model": "numpy", "no_cpython_wrapper": True, "no_cfunc_wrapper": True}
_FINDERS = (
    lambda name: lambda self: getattr(self.instance_class, name, None),
    lambda name: lambda self, a: getattr(self.instance_class, name, None),
    lambda name: lambda self, a, b: getattr(self.instance_class, name, None),
    lambda name: lambda self, a, b, c: getattr(self.instance_class, name, None),
    lambda name: lambda self, a, b, c, d: getattr(self.instance_class, name, None),
)


def compile_method(name: str, n_arguments: int) -> None:
    """Let kernels call a method of a named tuple: its class says which, and its source is compiled with the caller.

    In plain Python such a call is a call of the method, and nothing else. No field of a named tuple that a kernel
    takes may have the method's name: the compiler would read the field as the method.
    """
    for kind in (Reference, types.BaseNamedTuple):
        overloading: Any = overload_method
        overloading(kind, name, jit_options=_METHOD, strict=False)(_FINDERS[n_arguments](name))


Class = TypeVar("Class", bound=type)


def _nothing(self, state):
    """Keep nothing."""


def _nothing_of(self, state, job):
    """Keep nothing of a job."""


def _everybody(self, state, job, reserved):
    return True


METHODS: dict[str, tuple[int, dict[str, Callable | None]]] = {
    "follow": (1, {"order": _nothing, "hold": _nothing, "place": _nothing}),
    "score": (2, {"order": None}),
    "admits": (3, {"hold": _everybody}),
    "waits": (1, {"hold": _nothing}),
    "pick": (3, {"place": None}),
    "fits": (3, {}),
    "room": (4, {}),
    "reserve": (2, {}),
    "choose": (3, {}),
    "started": (2, {"order": _nothing_of, "hold": _nothing_of, "place": _nothing_of}),
}
"""By name: how many arguments a method has beside ``self``, and of which seams it is; None = the class must have it."""

for _name, (_n, _) in METHODS.items():
    compile_method(_name, _n)


def _seam(kind: str) -> Callable[[Class], Class]:
    def check(cls: Any) -> Any:
        for name, (_, kinds) in METHODS.items():
            if kind in kinds and not hasattr(cls, name):
                if kinds[kind] is None:
                    raise TypeError(f"{cls.__name__} is no {kind}: it has no method {name}")
                setattr(cls, name, kinds[kind])
        return cls

    return check


order = _seam("order")
"""A class of orders: ``score(self, state, job)``, the lowest is served first; ties go to the earlier queued job.

Optional: ``alike(self, state)``, in Python as a run begins: None if scores never change once a job is submitted, else
int64[n_jobs] arrays: of jobs that differ in none of them, the earlier queued one is never behind. Without, any score
may change at any time.
"""
hold = _seam("hold")
"""A class of hold-backs: ``admits(self, state, job, reserved)``, asked of the job that would be next; False skips it.

``reserved`` is the first waiting job's reservation (`procure.policies.place.Reservation`), if there is one. Optional:
``apart(self, state)``, as ``alike`` of orders: jobs that differ in none of the arrays are refused alike;
``waits(self, state)``, called when no waiting job may start; a field ``open``, bool[n_nodes]: the nodes that the job
that was admitted last may take.
"""
place = _seam("place")
"""A class of places: ``pick(self, state, job, n)``: of the ``n`` rows in ``state.chosen[:n]``, ascending, each of which
holds one node's share of the job, leave the ``state.n_nodes[job]`` that it gets first in ``chosen``.

Every class may have ``follow(self, state)``, called before each decision, and ``started(self, state, job)``, called
with the job that the decision starts, on the nodes in ``chosen``.
"""
