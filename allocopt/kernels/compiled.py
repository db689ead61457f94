"""How kernels are compiled: entries by themselves, when they are first needed, and helpers as parts of entries.

numba compiles whatever has a signature when its module is imported, optimizes it and keeps it in two files. Here an
*entry*, which Python calls, is loaded or compiled when it is first needed; a *helper*, which only kernels call, becomes
a part of the entries that call it: it is optimized within them, and neither made machine code of nor kept by itself.
A *question* is a helper that every type of state answers with a helper of its own.
"""

from collections.abc import Callable
from functools import update_wrapper
from typing import Any, TypeVar, cast

import numpy as np
from llvmlite import ir
from numba.core import cgutils, compiler, config, sigutils
from numba.core.codegen import JITCodeLibrary
from numba.core.dispatcher import _FunctionCompiler  # type: ignore[attr-defined]
from numba.core.pythonapi import PythonAPI
from numba.core.registry import CPUDispatcher

from allocopt.interruption import interrupted_after
from allocopt.kernels.store import KernelStore

Function = TypeVar("Function", bound=Callable[..., Any])

OPTIONS: dict[str, Any] = {"nopython": True, "nogil": True, "no_cfunc_wrapper": True}


class Kernel(CPUDispatcher):  # type: ignore[misc]
    """Entry that takes arguments of declared types, to which numba converts others."""

    def __init__(self, function: Callable[..., Any], signature: Any, options: dict[str, Any]) -> None:
        given = {**OPTIONS, **options}
        super().__init__(function, targetoptions=given)
        self._compiler = _EntryCompiler(function, self.targetdescr, given, {}, compiler.Compiler)
        self.declared = signature
        self.store = self._cache = KernelStore(function, signature, given)
        self._part = Helper(function, options)

    @property
    def is_loaded(self) -> bool:
        """Whether a call begins at once."""
        return bool(self.overloads)

    @property
    def word(self) -> str:
        """Name by which another process finds it."""
        return f"{self.__module__}:{self.__name__}"

    def load(self) -> None:
        """Load the machine code, or compile it and keep it."""
        if not self.is_loaded:
            # LLVM asks Python for the stored code: Ctrl-C there would be lost, and what stands in its place be run.
            with interrupted_after():
                self.compile(self.declared)
                self.disable_compile()

    def get_call_template(self, args: Any, kws: Any) -> Any:
        """Become a part of the kernels that call it."""
        return self._part.get_call_template(args, kws)

    def get_overload(self, sig: Any) -> Any:
        """Return the key by which kernels find the part."""
        return self._part.get_overload(sig)

    def _compile_for_args(self, *args: Any, **kws: Any) -> Any:
        # numba comes here where no loaded version takes the arguments: before the first call.
        if not self.is_loaded:
            self.load()
            types, _ = sigutils.normalize_signature(self.declared)
            pairs = zip(map(self.typeof_pyval, args), types, strict=False)
            if len(args) == len(types) and all(self.typingctx.can_convert(*pair) is not None for pair in pairs):
                return self.overloads[types].entry_point
        return super()._compile_for_args(*args, **kws)


class Helper(CPUDispatcher):  # type: ignore[misc]
    """Part of the entries that call it; Python, which means a test, may call it too, slowly."""

    def __init__(self, function: Callable[..., Any], options: dict[str, Any]) -> None:
        super().__init__(function, targetoptions={**OPTIONS, **options, "no_cpython_wrapper": True})
        self._compiler = _PartCompiler(function, self.targetdescr, self.targetoptions, {}, compiler.Compiler)
        self._options = options
        self._alone: dict[Any, Kernel] = {}

    def add_overload(self, cres: Any) -> None:
        """Make a compiled version known to kernels; numba would make it known to Python too."""
        self.overloads[tuple(cres.signature.args)] = cres

    def _compile_for_args(self, *args: Any, **kws: Any) -> Any:
        types = tuple(map(self.typeof_pyval, args))
        if types not in self._alone:
            self._alone[types] = Kernel(self.py_func, types, self._options)
            self._alone[types].load()
        return self._alone[types].overloads[types].entry_point


class Question(Helper):
    """Helper of which each named tuple that is its first argument has a version of its own, an answer."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__(function, {"_nrt": False, "forceinline": True})
        self.answers: dict[type, Helper] = {}

    def answer(self, record: type) -> Callable[[Function], Function]:
        """Make a helper the answer of a class of named tuples."""

        def answered(function: Function) -> Function:
            self.answers[record] = cast(Helper, function)
            return function

        return answered

    def get_call_template(self, args: Any, kws: Any) -> Any:
        """Become a part of the kernels that call it."""
        return self.answers[args[0].instance_class].get_call_template(args, kws)

    def get_overload(self, sig: Any) -> Any:
        """Return the key by which kernels find the part."""
        return self.answers[sig[0].instance_class].get_overload(sig)

    def _compile_for_args(self, *args: Any, **kws: Any) -> Any:
        return self.answers[type(args[0])]._compile_for_args(*args, **kws)


class _LinkingCompiler(_FunctionCompiler):  # type: ignore[misc]
    def _compile_into(self, library: Any, flags: Any, args: Any, return_type: Any) -> Any:
        library.enable_object_caching()
        self.targetdescr.options.parse_as_flags(flags, self.targetoptions)
        contexts = self.targetdescr.typing_context, self.targetdescr.target_context
        return compiler.compile_extra(*contexts, self.py_func, args, return_type, flags, self.locals, library)


class _EntryCompiler(_LinkingCompiler):
    """Compiles an entry whole: what numba's own functions in it come to is linked into it, as its helpers are."""

    def _compile_core(self, args: Any, return_type: Any) -> Any:
        context = self.targetdescr.target_context
        # The runtime, which is called by its address, is made before.
        context.refresh()
        codegen = context.codegen()
        library = codegen.create_library(self.py_func.__qualname__)
        usual = codegen._library_class, PythonAPI.unserialize
        codegen._library_class, PythonAPI.unserialize = _PartLibrary, _unserialize
        try:
            return self._compile_into(library, compiler.Flags(), args, return_type)
        finally:
            codegen._library_class, PythonAPI.unserialize = usual


def _unserialize(api: Any, pointer: Any, usual: Callable[..., Any] = PythonAPI.unserialize) -> Any:
    """Return the class of an array or tuple that an entry returns.

    numba asks a function in Python for it, which is where Ctrl-C is heard that came while the kernel ran, and uses what
    it gets without a look: nothing, then. So it is asked again, and Ctrl-C is heard once the kernel is left.
    """
    found = cgutils.alloca_once_value(api.builder, usual(api, pointer))
    with api.builder.if_then(cgutils.is_null(api.builder, api.builder.load(found)), likely=False):
        api.err_clear()
        api.builder.store(usual(api, pointer), found)
        interrupt = ir.FunctionType(ir.VoidType(), ())
        api.builder.call(api._get_function(interrupt, "PyErr_SetInterrupt"), ())
    return api.builder.load(found)


class _PartCompiler(_LinkingCompiler):
    """Compiles a helper up to what is linked into entries."""

    def _compile_core(self, args: Any, return_type: Any) -> Any:
        context, flags = self.targetdescr.target_context, compiler.Flags()
        flags.no_compile = True
        library = _PartLibrary(context.codegen(), self.py_func.__qualname__)
        # Entries find it by what would be its Python function.
        named = self._compile_into(library, flags, args, return_type)._replace(entry_point=object())
        context.insert_user_function(named.entry_point, named.fndesc, [library])
        return named


class _PartLibrary(JITCodeLibrary):  # type: ignore[misc]
    """Code that is linked into other libraries, which optimize it with their own and make machine code of both."""

    def _optimize_final_module(self) -> None:
        pass

    def _finalize_final_module(self) -> None:
        self._finalize_dynamic_globals()
        self._finalized = True

    def get_pointer_to_function(self, name: str) -> int:
        """Return 0: Python does not call parts."""
        return 0

    @property
    def codegen(self) -> Any:
        """What numba hands the environment of a function to, for which there is no place before it is linked."""
        return _Unlinked(self._codegen)


class _Unlinked:
    def __init__(self, codegen: Any) -> None:
        self._codegen = codegen

    def __getattr__(self, name: str) -> Any:
        return getattr(self._codegen, name)

    def set_env(self, name: str, environment: Any) -> None:
        pass


class _PlainQuestion:
    """A question whose answers Python runs as they are written."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.answers: dict[type, Callable[..., Any]] = {}
        update_wrapper(self, function)

    def answer(self, record: type) -> Callable[[Function], Function]:
        """Make a function the answer of a class of named tuples."""

        def answered(function: Function) -> Function:
            self.answers[record] = function
            return function

        return answered

    def __call__(self, state: Any, *arguments: Any) -> Any:
        return self.answers[type(state)](state, *arguments)


def _as_written(function: Function) -> Function:
    """Return a function that Python runs as it is written, as an entry that is loaded."""
    entry = cast(Any, function)
    entry.is_loaded, entry.py_func, entry.load = True, function, lambda: None
    return function


IS_PLAIN = bool(config.DISABLE_JIT)  # type: ignore[attr-defined]
"""Whether Python runs kernels as they are written, for debuggers and coverage: under ``NUMBA_DISABLE_JIT=1``."""


if IS_PLAIN:
    # Whole numbers of kernels wrap around without a word, as those of random numbers have to.
    np.seterr(over="ignore")


def kernel(signature: Any, *, allocates: bool = False, **options: Any) -> Callable[[Function], Function]:
    """Make an entry of a function.

    Parameters
    ----------
    signature
        Numba's types of its result and arguments.
    allocates
        Whether it makes arrays or keeps some. Counting the references to arguments, which may be seventy arrays, costs
        ten times more than some kernels' work.
    **options
        Options of `numba.njit`.
    """

    def entry_of(function: Function) -> Function:
        if IS_PLAIN:
            return _as_written(function)
        return cast(Function, Kernel(function, signature, {"_nrt": allocates, **options}))

    return entry_of


def helper(*, allocates: bool = False, **options: Any) -> Callable[[Function], Function]:
    """Make a part of entries of a function; see `kernel`."""

    def part_of(function: Function) -> Function:
        if IS_PLAIN:
            return _as_written(function)
        # Else it would be inlined wherever one that is inlined called it first.
        return cast(Function, Helper(function, {"_nrt": allocates, "forceinline": False, **options}))

    return part_of


def inlined(function: Function) -> Function:
    """Make a part of every loop that calls it of a function that allocates nothing."""
    return _as_written(function) if IS_PLAIN else cast(Function, Helper(function, {"_nrt": False, "forceinline": True}))


def question(function: Callable[..., Any]) -> Question:
    """Make a question of a function, of which the signature and the docstring count."""
    return cast(Question, _PlainQuestion(function)) if IS_PLAIN else Question(function)
