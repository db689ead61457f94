"""Commands of functions whose parameters may be dataclasses: each of their fields is an argument or option."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from inspect import Parameter, Signature, signature
from typing import Any


def command_of(run: Callable[..., object]) -> Callable[..., None]:
    """Make a command of a function; typer sees the fields of its parameters that are dataclasses as parameters."""

    def command(**given: Any) -> None:
        run(**gathered(run, given))

    return with_parameters(command, run.__doc__, parameters_of(run))


def gathered(run: Callable[..., object], given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of a function, of which dataclasses are made of their fields."""
    left = dict(given)
    for name, part in _own(run).items():
        if is_dataclass(part.annotation) and isinstance(part.annotation, type):
            left[name] = part.annotation(**{field.name: left.pop(field.name) for field in fields(part.annotation)})
    return left


def parameters_of(run: Callable[..., object]) -> list[Parameter]:
    """Return the parameters of a function or dataclass for typer, with fields in the place of dataclasses."""
    found = []
    for part in _own(run).values():
        if is_dataclass(part.annotation) and isinstance(part.annotation, type):
            found += parameters_of(part.annotation)
        else:
            found.append(part.replace(kind=Parameter.KEYWORD_ONLY))
    return found


def with_parameters(
    command: Callable[..., None], doc: str | None, parameters: Sequence[Parameter]
) -> Callable[..., None]:
    """Give a function of keywords the parameters and the text that typer shows."""
    # typer reads a signature, whatever the function itself takes.
    command.__doc__ = doc
    command.__signature__ = Signature(parameters)  # type: ignore[attr-defined]
    command.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return command


def _own(run: Callable[..., object]) -> dict[str, Parameter]:
    return dict(signature(run, eval_str=True).parameters)


def names_of(registry: str) -> Callable[[str], list[str]]:
    """Complete names of a registry: ``solvers``, ``policies`` or ``artifacts``; after a comma the next one."""

    def complete(incomplete: str) -> list[str]:
        # A shell replaces the whole word, so that the names before the comma are given back.
        before, comma, begun = incomplete.rpartition(",")
        return [f"{before}{comma}{name}" for name in _names(registry) if name.startswith(begun)]

    return complete


def _names(registry: str) -> list[str]:
    if registry == "solvers":
        from allocopt.solving.registry import solver_names

        return solver_names()
    if registry == "policies":
        from allocopt.simulator.registry import policy_names

        return policy_names()
    from allocopt.reproduction import reproduction_names

    return reproduction_names()
