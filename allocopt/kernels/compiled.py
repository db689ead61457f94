"""Compiling of kernels: entries are compiled when they are first needed, helpers as parts of entries.

numba compiles a function with a signature when its module is imported, optimizes it and stores it in two files. Here an
*entry*, which Python calls, is loaded or compiled when it is first needed. A *helper*, which only kernels call, becomes
a part of the entries that call it: it is optimized within them, and has no machine code and no file of its own. A
*question* is a helper for which every type of state has its own version, an *answer*.
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
    """Entry that takes arguments of declared types; numba converts arguments to them."""

    def __init__(self, function: Callable[..., Any], signature: Any, options: dict[str, Any]) -> None:
        given = {**OPTIONS, **options}
        super().__init__(function, targetoptions=given)
        self._compiler = _EntryCompiler(function, self.targetdescr, given, {}, compiler.Compiler)
        self.declared = signature
        self.store = self._cache = KernelStore(function, signature, given)
        self._part = Helper(function, options)

    @property
    def is_loaded(self) -> bool:
        """Whether the machine code is loaded, so that a call begins immediately."""
        return bool(self.overloads)

    @property
    def word(self) -> str:
        """Name by which another process finds the entry."""
        return f"{self.__module__}:{self.__name__}"

    def load(self) -> None:
        """Load the machine code, or compile and store it."""
        if not self.is_loaded:
            # LLVM calls Python for the stored code. Ctrl-C in that call would be lost, and wrong code would be run.
            with interrupted_after():
                self.compile(self.declared)
                self.disable_compile()

    def get_call_template(self, args: Any, kws: Any) -> Any:
        """Return the template by which numba makes the kernel a part of the kernels that call it."""
        return self._part.get_call_template(args, kws)

    def get_overload(self, sig: Any) -> Any:
        """Return the key by which the kernels that call it find its code."""
        return self._part.get_overload(sig)

    def _compile_for_args(self, *args: Any, **kws: Any) -> Any:
        # numba calls this if no loaded version takes the arguments, for example at the first call.
        if not self.is_loaded:
            self.load()
            types, _ = sigutils.normalize_signature(self.declared)
            pairs = zip(map(self.typeof_pyval, args), types, strict=False)
            if len(args) == len(types) and all(self.typingctx.can_convert(*pair) is not None for pair in pairs):
                return self.overloads[types].entry_point
        return super()._compile_for_args(*args, **kws)


class Helper(CPUDispatcher):  # type: ignore[misc]
    """Part of the entries that call it; Python can call it, too, which is slow and only for tests."""

    def __init__(self, function: Callable[..., Any], options: dict[str, Any]) -> None:
        super().__init__(function, targetoptions={**OPTIONS, **options, "no_cpython_wrapper": True})
        self._compiler = _PartCompiler(function, self.targetdescr, self.targetoptions, {}, compiler.Compiler)
        self._options = options
        self._alone: dict[Any, Kernel] = {}

    def add_overload(self, cres: Any) -> None:
        """Register a compiled version for kernels; numba would also register it for calls from Python."""
        self.overloads[tuple(cres.signature.args)] = cres

    def _compile_for_args(self, *args: Any, **kws: Any) -> Any:
        types = tuple(map(self.typeof_pyval, args))
        if types not in self._alone:
            self._alone[types] = Kernel(self.py_func, types, self._options)
            self._alone[types].load()
        return self._alone[types].overloads[types].entry_point


class Question(Helper):
    """Helper with a version, an answer, for each class of named tuples that is its first argument."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__(function, {"_nrt": False, "forceinline": True})
        self.answers: dict[type, Helper] = {}

    def answer(self, record: type) -> Callable[[Function], Function]:
        """Return a decorator that makes a helper the answer of a class of named tuples."""

        def answered(function: Function) -> Function:
            self.answers[record] = cast(Helper, function)
            return function

        return answered

    def get_call_template(self, args: Any, kws: Any) -> Any:
        """Return the template by which numba makes the answer a part of the kernels that call it."""
        return self.answers[args[0].instance_class].get_call_template(args, kws)

    def get_overload(self, sig: Any) -> Any:
        """Return the key by which the kernels that call it find its code."""
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
    """Compiler of an entry; numba's own functions in it are linked into it, as its helpers are."""

    def _compile_core(self, args: Any, return_type: Any) -> Any:
        context = self.targetdescr.target_context
        # Make numba's runtime first, because the code calls it by its address.
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

    numba calls a Python function for it, and uses the result unchecked. If Ctrl-C was pressed while the kernel ran,
    this call raises `KeyboardInterrupt` and returns null. In that case, the code made here calls the function again,
    and raises `KeyboardInterrupt` again after the kernel has returned.
    """
    found = cgutils.alloca_once_value(api.builder, usual(api, pointer))
    with api.builder.if_then(cgutils.is_null(api.builder, api.builder.load(found)), likely=False):
        api.err_clear()
        api.builder.store(usual(api, pointer), found)
        interrupt = ir.FunctionType(ir.VoidType(), ())
        api.builder.call(api._get_function(interrupt, "PyErr_SetInterrupt"), ())
    return api.builder.load(found)


class _PartCompiler(_LinkingCompiler):
    """Compiler of a helper, up to the code that is linked into entries."""

    def _compile_core(self, args: Any, return_type: Any) -> Any:
        context, flags = self.targetdescr.target_context, compiler.Flags()
        flags.no_compile = True
        library = _PartLibrary(context.codegen(), self.py_func.__qualname__)
        # Entries find it by a unique object in place of its Python function.
        named = self._compile_into(library, flags, args, return_type)._replace(entry_point=object())
        context.insert_user_function(named.entry_point, named.fndesc, [library])
        return named


class _PartLibrary(JITCodeLibrary):  # type: ignore[misc]
    """Code that is linked into other libraries, which optimize and compile it together with their own."""

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
        """Code generator that ignores the environment of a function, which has no address before it is linked."""
        return _Unlinked(self._codegen)


class _Unlinked:
    def __init__(self, codegen: Any) -> None:
        self._codegen = codegen

    def __getattr__(self, name: str) -> Any:
        return getattr(self._codegen, name)

    def set_env(self, name: str, environment: Any) -> None:
        pass


class _PlainQuestion:
    """A question whose answers run as plain Python."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.answers: dict[type, Callable[..., Any]] = {}
        update_wrapper(self, function)

    def answer(self, record: type) -> Callable[[Function], Function]:
        """Return a decorator that makes a function the answer of a class of named tuples."""

        def answered(function: Function) -> Function:
            self.answers[record] = function
            return function

        return answered

    def __call__(self, state: Any, *arguments: Any) -> Any:
        return self.answers[type(state)](state, *arguments)


def _as_written(function: Function) -> Function:
    """Return a function that runs as plain Python, with the attributes of a loaded entry."""
    entry = cast(Any, function)
    entry.is_loaded, entry.py_func, entry.load = True, function, lambda: None
    return function


IS_PLAIN = bool(config.DISABLE_JIT)  # type: ignore[attr-defined]
"""Whether kernels run as plain Python, for debuggers and coverage: with ``NUMBA_DISABLE_JIT=1``."""


if IS_PLAIN:
    # In compiled kernels integers wrap around without a warning, which random numbers rely on.
    np.seterr(over="ignore")


def kernel(signature: Any, *, allocates: bool = False, **options: Any) -> Callable[[Function], Function]:
    """Return a decorator that makes a function an entry.

    Parameters
    ----------
    signature
        Numba's types of the result and the arguments.
    allocates
        Whether it makes arrays or keeps references to some. If not, numba does not count references to the arguments.
        Counting them for up to seventy arrays can take ten times as long as the kernel itself.
    **options
        Options of `numba.njit`.
    """

    def entry_of(function: Function) -> Function:
        if IS_PLAIN:
            return _as_written(function)
        return cast(Function, Kernel(function, signature, {"_nrt": allocates, **options}))

    return entry_of


def helper(*, allocates: bool = False, **options: Any) -> Callable[[Function], Function]:
    """Return a decorator that makes a function a helper; see `kernel`."""

    def part_of(function: Function) -> Function:
        if IS_PLAIN:
            return _as_written(function)
        # State ``forceinline``: numba would otherwise take it over if the first caller is an inlined helper.
        return cast(Function, Helper(function, {"_nrt": allocates, "forceinline": False, **options}))

    return part_of


def inlined(function: Function) -> Function:
    """Decorate a function that allocates nothing, so that it is inlined wherever it is called."""
    return _as_written(function) if IS_PLAIN else cast(Function, Helper(function, {"_nrt": False, "forceinline": True}))


def question(function: Callable[..., Any]) -> Question:
    """Decorate a function, of which only the signature and the docstring count, as a question."""
    return cast(Question, _PlainQuestion(function)) if IS_PLAIN else Question(function)
