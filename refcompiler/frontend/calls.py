"""Calls: functions of the language, kernel-language functions compiled in place, Python on compile-time values."""

from __future__ import annotations

import ast
import builtins
import inspect
import types
from typing import Any

from refcompiler.errors import TileSpecError
from refcompiler.frontend.attributes import Method, attribute
from refcompiler.frontend.builtin import Builtin
from refcompiler.frontend.captures import compile_time
from refcompiler.frontend.context import describe, elements, is_runtime
from refcompiler.frontend.kernel_source import KernelSource, plain_source
from refcompiler.frontend.language import math
from refcompiler.frontend.loops import Loops
from refcompiler.frontend.nested import NestedFunction
from refcompiler.frontend.scope import PYTHON_FUNCTIONS, Frame
from refcompiler.frontend.sequences import REARRANGE, Argument, folded, rearranged
from refcompiler.frontend.types import aggregate, constexpr, dtype, tensor
from refcompiler.ir import Value

_MAX_DEPTH = 40
_ORDERLESS = (len, sorted, min, max, set, frozenset, any, all, bool, isinstance)  # their result needs no order of a set
_RUNTIME_FORMS: dict[Any, Any] = {min: math.minimum, max: math.maximum, abs: math.abs}

_RUNTIME_ADVICE = {
    "len": "x.shape[0]",
    "int": "x.to(tl.int32)",
    "float": "x.to(tl.float32)",
    "bool": "x != 0",
    "sum": "tl.sum(x)",
    "round": "tl.floor(x + 0.5)",
    "str": "tl.static_print, which shows types",
    "repr": "tl.static_print, which shows types",
    "format": "tl.static_print, which shows types",
    "cdiv": "tl.cdiv(x, y)",
    "sqrt": "tl.sqrt(x)",
    "exp": "tl.exp(x)",
    "log": "tl.log(x)",
}


class Calls(Loops):
    """The call part of the compiler of one function; the whole compiler of one function."""

    def __init__(self, context: Any, frame: Frame):
        self.context, self.frame = context, frame

    def call(self, node: ast.Call) -> Any:
        function = self.expr(node.func)
        positional: list[Argument] = []
        if isinstance(function, Method):
            owner = node.func.value if isinstance(node.func, ast.Attribute) else node.func
            positional.append(Argument(function.owner, owner))
            function = function.function
        for argument in node.args:
            if isinstance(argument, ast.Starred):
                positional += [Argument(v, argument) for v in self.sequence(argument.value)]
            else:
                positional.append(Argument(self.expr(argument), argument))
        keywords: dict[str, Argument] = {}
        for keyword in node.keywords:
            given = {keyword.arg: self.expr(keyword.value)} if keyword.arg else self.mapping(keyword.value)
            for name, value in given.items():
                if not isinstance(name, str) or name in keywords:
                    wrong = f"gets `{name}` twice" if name in keywords else f"has a keyword that is no string: {name!r}"
                    raise self.error("control.calls#E3", f"the call {wrong}", keyword)
                keywords[name] = Argument(value, keyword.value)
        return self.dispatch(node, function, positional, keywords)

    def dispatch(self, node: ast.Call, function: Any, args: list[Argument], kwargs: dict[str, Argument]) -> Any:
        builtin = getattr(function, "__tile_builtin__", None)
        if builtin is not None:
            return self.call_builtin(node, builtin, args, kwargs)
        if isinstance(function, types.MethodType) and self.frame.source.rules.plain_functions:
            function, args = function.__func__, [Argument(function.__self__, node.func), *args]
        source = self.source_of(function)
        if source is not None:
            enclosing = function.frame if isinstance(function, NestedFunction) else None
            return self.call_source(node, source, args, kwargs, enclosing)
        if function is constexpr:
            return self.make_constexpr(node, args)
        values = [a.value for a in args]
        if isinstance(function, type) and issubclass(function, tuple) and hasattr(function, "_fields"):
            return self.compute(node, lambda: function(*values, **{k: a.value for k, a in kwargs.items()}))
        if function is isinstance and len(values) == 2:
            return _is_instance(*values)
        if function is print:
            message = "printing from the device is not in this edition yet; tl.static_print prints while compiling"
            raise self.unsupported(node, message)
        if function is range:
            return self.plain_range(node, args)
        runtime = next((a for a in (*args, *kwargs.values()) if is_runtime(a.value)), None)
        if function in (getattr, hasattr) and args and isinstance(args[0].value, Value | aggregate):
            return self.reflect(node, function, values)
        if isinstance(function, type | types.BuiltinFunctionType) and function in REARRANGE and (args or kwargs):
            return rearranged(self, node, function, args, kwargs)
        if isinstance(getattr(function, "__self__", None), dict) and args and not is_runtime(args[0].value):
            return self.compute(node, lambda: compile_time(function(*values)))  # get: the default may be anything
        if function is map and len(args) > 1:
            rounds = zip(*(self.sequence_of(a) for a in args[1:]), strict=False)
            return tuple(self.dispatch(node, values[0], [Argument(v, node) for v in r], {}) for r in rounds)
        if runtime is not None:
            return self.runtime_form(node, function, args, runtime)
        return self.call_python(node, function, values, {k: a.value for k, a in kwargs.items()})

    # --- functions of the language
    def bind(
        self, node: ast.Call, name: str, signature: inspect.Signature, args: list, kwargs: dict
    ) -> inspect.BoundArguments:
        try:
            return signature.bind(*args, **kwargs)
        except TypeError as error:
            raise self.error("control.calls#E3", f"{name}{signature}: {error}", node) from None

    def call_builtin(self, node: ast.Call, builtin: Builtin, args: list[Argument], kwargs: dict) -> Any:
        names = builtin.names(len(args), kwargs)
        if names is not None:
            given = [*args, *kwargs.values()]
            spans = {name: self.frame.span(a.node) for name, a in zip(names, given, strict=True)}
            self.context.span, self.context.arguments = self.frame.span(node), spans
            return builtin.lower(*[a.value for a in args], **{name: a.value for name, a in kwargs.items()})
        bound = self.bind(node, f"tl.{builtin.name}", builtin.signature, args, kwargs)
        spans = {}
        for name, argument in bound.arguments.items():
            several = argument if isinstance(argument, tuple) else (argument,)
            if several:
                spans[name] = self.frame.span(several[0].node)
            values = tuple(a.value for a in several)
            bound.arguments[name] = values if isinstance(argument, tuple) else values[0]
        self.context.span, self.context.arguments = self.frame.span(node), spans
        return builtin.lower(*bound.args, **bound.kwargs)

    def make_constexpr(self, node: ast.Call, args: list[Argument]) -> constexpr:
        if len(args) != 1 or is_runtime(args[0].value):
            found = describe(args[0].value) if args else "nothing"
            raise self.error("control.constexpr#E2", f"tl.constexpr takes one compile-time value, found {found}", node)
        return constexpr(args[0].value)

    # --- functions written in the language
    def source_of(self, function: Any) -> KernelSource | None:
        """The source of a function that is compiled in place; None for what Python computes."""
        if isinstance(function, NestedFunction):
            return function.source
        source = getattr(function, "__kernel_source__", None)
        rules = self.frame.source.rules
        if source is not None or not rules.plain_functions or not isinstance(function, types.FunctionType):
            return source
        return None if callable_at_compile_time(function) else plain_source(function, rules)

    def call_source(
        self, node: ast.Call, source: KernelSource, args: list, kwargs: dict, enclosing: Frame | None = None
    ) -> Any:
        bound = self.bind(node, source.name, source.signature, args, kwargs).arguments
        span = self.frame.span(node)
        frame = Frame(source, span, self.frame.pinned or (span if source.library else None), enclosing)
        for parameter in source.parameters:
            name = parameter.name
            if name in bound and parameter.kind is inspect.Parameter.VAR_POSITIONAL:
                value: Any = tuple(a.value for a in bound[name])
            elif name in bound and parameter.kind is inspect.Parameter.VAR_KEYWORD:
                value = {key: a.value for key, a in bound[name].items()}
            elif name in bound:
                value = bound[name].value
                if parameter.constexpr and is_runtime(value):
                    message = f"parameter {name} of {source.name} is constexpr, found {describe(value)}"
                    raise self.error("control.constexpr#E2", message, bound[name].node)
            elif parameter.kind is inspect.Parameter.VAR_POSITIONAL:
                value = ()
            elif parameter.kind is inspect.Parameter.VAR_KEYWORD:
                value = {}
            else:
                value = parameter.default
            frame.bind(name, value, parameter.node)
        return self.run(frame, node)

    def run(self, frame: Frame, node: ast.AST) -> Any:
        """Compile a function's body in place; its value."""
        c = self.context
        if c.depth >= _MAX_DEPTH:
            message = (
                f"calls nest deeper than {_MAX_DEPTH}: recursion must end by its constexpr arguments "
                f"(in {frame.source.name})"
            )
            raise self.error("control.calls#E1", message, node)
        c.depth += 1
        c.sources[f"{frame.source.file}:{frame.source.first_line}:{frame.source.name}"] = frame.source.text
        try:
            return Calls(c, frame).function()
        finally:
            c.depth -= 1

    def inline(self, function: Any, values: list[Any], at: str) -> Any:
        """Call a function given as an argument (a combine function) on values."""
        c = self.context
        source = self.source_of(function)
        if source is None:
            raise c.error("control.calls#E2", f"{at} must be a @jit function, found {describe(function)}", at)
        span = c.arguments.get(at, c.span)
        saved = c.span, c.arguments
        frame = Frame(source, span, self.frame.pinned or (span if source.library else None))
        if isinstance(function, NestedFunction):
            frame.enclosing = function.frame
        try:
            bound = source.signature.bind(*values).arguments
        except TypeError as error:
            raise c.error(
                "control.calls#E3", f"{source.name}{source.signature} gets {len(values)} scalars: {error}", at
            ) from None
        for parameter in source.parameters:
            value = bound.get(
                parameter.name, () if parameter.kind is parameter.kind.VAR_POSITIONAL else parameter.default
            )
            frame.bind(parameter.name, value, parameter.node)
        result = self.run(frame, source.tree)
        c.span, c.arguments = saved
        return result

    # --- Python
    def sequence_of(self, argument: Argument) -> tuple:
        found = elements(argument.value)
        if found is None:
            raise self.no_sequence(
                argument.node, argument.value, "`map` takes compile-time sequences", "control.calls#E2"
            )
        return found

    def plain_range(self, node: ast.Call, args: list[Argument]) -> range:
        runtime = next((a for a in args if is_runtime(a.value)), None)
        if runtime is not None:
            message = "range of run-time values stands in the header of a for loop only"
            raise self.error("control.for_range#E7", message, runtime.node)
        return self.compute(node, range, *(a.value for a in args))

    def reflect(self, node: ast.Call, function: Any, values: list[Any]) -> Any:
        owner, name = values[0], values[1] if len(values) > 1 else None
        if not isinstance(name, str):
            raise self.error("control.calls#E3", f"{function.__name__} takes a value and a name", node)
        try:
            found = attribute(self.at(node, value=node.args[0]), owner, name)
        except TileSpecError:
            if function is hasattr:
                return False
            if len(values) > 2:
                return values[2]
            raise
        return True if function is hasattr else found

    def runtime_form(self, node: ast.Call, function: Any, args: list[Argument], runtime: Argument) -> Any:
        """Python's min, max and abs on run-time values; everything else explains what to write."""
        form = _RUNTIME_FORMS.get(function) if isinstance(function, types.BuiltinFunctionType) else None
        if form is math.abs and len(args) == 1 and isinstance(args[0].value, Value):
            return self.call_builtin(node, form.__tile_builtin__, args, {})
        if function in (sum, min, max) and args:
            found = folded(self, self.call_builtin, node, function, args)
            if found is not None:
                return found
        name = getattr(function, "__name__", describe(function))
        advice = f"; use {_RUNTIME_ADVICE[name]}" if name in _RUNTIME_ADVICE else ""
        if isinstance(function, types.FunctionType) and not callable_at_compile_time(function):
            advice = "; decorate it with @jit to compile it into the kernel"
        message = (
            f"`{name}` is a Python function and works on compile-time values only, found {describe(runtime.value)}"
        )
        if isinstance(function, dtype):
            message, advice = f"a dtype is not called, found {describe(runtime.value)}", f"; use x.to({function!r})"
        raise self.error("control.calls#E2", message + advice, runtime.node)

    def call_python(self, node: ast.Call, function: Any, values: list[Any], keywords: dict[str, Any]) -> Any:
        """Call Python on compile-time values, where that is harmless."""
        if not callable(function):
            raise self.error("control.calls#E2", f"{describe(function)} is not a function", node.func)
        if not (callable_at_compile_time(function) or self.frame.source.rules.plain_functions):
            name = getattr(function, "__name__", repr(function))
            message = (
                f"`{name}` is a plain Python function; decorate it with @jit to compile it into the kernel, or with "
                "@constexpr_function to call it while compiling"
            )
            raise self.error("control.calls#E2", message, node.func)
        if function not in _ORDERLESS and (
            disordered := next((a for a in values if isinstance(a, set | frozenset)), None)
        ):
            raise self.no_sequence(node, disordered, f"`{function.__name__}` would show one")
        return compile_time(self.compute(node, lambda: function(*values, **keywords)))


def callable_at_compile_time(function: Any) -> bool:
    """Python functions without effects: some builtins, math and NumPy, our own, and those marked by the user."""
    if getattr(function, "__constexpr_function__", False):
        return True
    if function in [getattr(builtins, name) for name in PYTHON_FUNCTIONS]:
        return True
    owner = getattr(function, "__self__", None)
    if isinstance(owner, str | int | float | tuple | dict | frozenset):
        return True  # C.bit_length()
    module = (getattr(function, "__module__", None) or type(function).__module__).split(".")[0]
    return module in ("math", "operator", "numpy", "refcompiler", "_operator")


def _is_instance(value: Any, classes: Any) -> bool:
    """isinstance, where run-time values are tl.tensor and compile-time ones also tl.constexpr."""
    several = classes if isinstance(classes, tuple) else (classes,)
    if isinstance(value, Value | aggregate):
        return (tensor if isinstance(value, Value) else type(value)) in several
    return constexpr in several or isinstance(value, tuple(c for c in several if isinstance(c, type)))
