"""Kernels that only kernels call are linked, not assembled: a policy compiles in three fifths of the time.

Numba makes machine code of each function together with all that it calls, and then once more within each caller.
Of a policy's 80 functions Python calls one. Here the others are kept as the compiler's own code until one that Python
calls is linked with them, optimised and assembled, once. What Numba decides about types it remembers too seldom:
here the answer for an operator is kept, and its options are compared by what was set.
"""

from __future__ import annotations

import contextlib
import operator
from collections.abc import Iterator
from typing import Any

import llvmlite.binding as llvm
import numba
from numba.core import types
from numba.core.codegen import JITCodeLibrary, JITCPUCodegen
from numba.core.compiler import Flags
from numba.core.dispatcher import _FunctionCompiler  # type: ignore[attr-defined]
from numba.core.environment import lookup_environment
from numba.core.registry import cpu_target
from numba.core.targetconfig import TargetConfig

TRIED = (60, 68)
"""The first and the last 0.x of Numba with whose insides this was tried; any other compiles in its own way."""
_UNLINKED = "unlinked"
"""How the cache on the disk calls code that is neither optimised nor assembled."""


def is_tried() -> bool:
    """Say whether this Numba is one that kernels are linked late with."""
    return numba.version_info[0] == 0 and TRIED[0] <= numba.version_info[1] <= TRIED[1]


class Compiler(_FunctionCompiler):
    """What compiles a kernel."""

    entrance = False
    """Python calls it with named tuples by reference; any other kernel with such an argument is called by kernels."""
    _types: tuple[Any, ...] = ()

    def _compile_core(self, args: Any, return_type: Any) -> Any:
        self._types = tuple(args)
        if not (self.entrance or self._by_reference or isinstance(_codegen(), Codegen)):
            return super()._compile_core(args, return_type)  # the sweep's kernel is some percent faster in Numba's way
        with linked_late():
            return super()._compile_core(args, return_type)

    @property
    def _by_reference(self) -> bool:
        return any(getattr(one, "between_kernels", False) for one in self._types)

    def _customize_flags(self, flags: Any) -> Any:
        if not self.entrance and self._by_reference:
            flags.no_cpython_wrapper = True
        return flags


class Library(JITCodeLibrary):
    """The code of one function, linked with what it calls when an address in it is first asked for."""

    _own: Any = None

    def add_linking_library(self, library: Any) -> None:
        """Take note of what this calls."""
        if not isinstance(library, Library):
            library._ensure_finalized()
        self._linking_libraries.append(library)

    def get_pointer_to_function(self, name: str) -> int:
        """Return the address of a function, 0 if there is none of that name."""
        if not self._finalized and not _defines(self._final_module, name):
            return 0
        return int(super().get_pointer_to_function(name))

    @property
    def has_dynamic_globals(self) -> bool:
        """Whether the code names addresses of this process."""
        if self._finalized:
            return len(self._dynamic_globals) > 0
        modules = (self._final_module, *self._called())
        return any(one.name.startswith("numba.dynamic.globals") for each in modules for one in each.global_variables)

    def finalize(self) -> None:
        """Link, optimise and assemble."""
        self._link()
        super().finalize()

    def serialize_using_object_code(self) -> tuple[str, str, Any]:
        """Return what is kept on the disk: linked, so that it can be read without what it calls."""
        if self._finalized:
            return super().serialize_using_object_code()
        self._link()
        return self.name, _UNLINKED, self._final_module.as_bitcode()

    @classmethod
    def _unserialize(cls, codegen: Any, state: tuple[str, str, Any]) -> Any:
        name, kind, code = state
        if kind != _UNLINKED:
            return super()._unserialize(codegen, state)
        made = codegen.create_library(name)
        made.enable_object_caching()
        made._final_module = llvm.parse_bitcode(code)
        return made

    def _link(self) -> None:
        for module in self._called():
            self._final_module.link_in(module, preserve=True)
        self._linking_libraries, self._own = [], None

    def _called(self) -> list[Any]:
        """Return the modules of all that this calls, directly or not, each behind one that calls it."""
        found: dict[Any, Any] = {}
        left = list(reversed(self._linking_libraries))
        while left:
            library = left.pop()
            if library in found:
                continue
            if isinstance(library, Library) and not library._finalized:
                found[library] = library._linkable()
                left += reversed(library._linking_libraries)
            else:
                if hasattr(self, "_reload_init"):  # from Numba 0.61 or later on
                    self._reload_init.update(library._reload_init)
                found[library] = library._get_module_for_linking()
        return list(found.values())

    def _linkable(self) -> Any:
        """Return this function's module in a form that may be linked into several, as Numba does of finished ones."""
        if self._own is None:
            self._own = self._final_module.clone()
            for function in self._own.functions:
                if not function.is_declaration and function.linkage == llvm.Linkage.external:
                    function.linkage = "linkonce_odr"
        return self._own

    def _finalize_specific(self) -> None:
        super()._finalize_specific()
        codegen: Any = self._codegen
        for value in self._final_module.global_variables:
            if value.name.startswith("_ZN08NumbaEnv") and (found := lookup_environment(value.name)) is not None:
                codegen.set_env(value.name, found)


def _defines(module: Any, name: str) -> bool:
    with contextlib.suppress(NameError):
        return not module.get_function(name).is_declaration
    return False


class Codegen(JITCPUCodegen):
    """Numba's, with these libraries."""

    _library_class = Library

    def set_env(self, env_name: str, env: Any) -> None:
        """Set a function's environment, if there is machine code of it."""
        if self._engine.get_global_value_address(env_name):
            super().set_env(env_name, env)


class Operator(types.Function):
    """A function of `operator`: Numba's own class tries some 30 rules wherever it stands, twice for a subscript."""

    def get_call_type(self, context: Any, args: Any, kws: Any) -> Any:
        """Return the signature for types of arguments."""
        if kws or not all(isinstance(one, _PLAIN) for one in args):
            return super().get_call_type(context, args, kws)
        known: dict[tuple, Any] = self.__dict__.setdefault("_known", {})
        key = tuple(args)
        if key not in known:
            known[key] = super().get_call_type(context, args, kws)
        return known[key]


_PLAIN = (types.Number, types.Boolean, types.Literal, types.Array)
_OPERATORS = [one for name in operator.__all__ if callable(one := getattr(operator, name))]
_HASH = hash(tuple(sorted(Flags.options)))


def _equal(self: Any, other: Any) -> Any:
    if self is other or (type(self) is type(other) and self._values == other._values):
        return True
    return TargetConfig.__eq__(self, other)


_flags: Any = Flags
if is_tried():
    _flags.__hash__ = lambda self: _HASH  # as Numba has it, which sorts the options' names each time
    _flags.__eq__ = _equal


def _codegen() -> Any:
    return cpu_target.target_context.codegen()


@contextlib.contextmanager
def linked_late() -> Iterator[None]:
    """Let what is compiled or read in here be linked when it is needed; whoever calls holds the compiler's lock."""
    if not is_tried():
        yield
        return
    codegen = _codegen()
    before = codegen.__class__
    codegen.__class__ = Codegen
    if before is not Codegen:
        for one in _OPERATORS:
            known = cpu_target.typing_context._lookup_global(one)
            if type(known) is types.Function:
                known.__class__ = Operator
    try:
        yield
    finally:
        codegen.__class__ = before
