"""Make commands of functions whose parameters may be dataclasses; each field is an argument or option."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from importlib import import_module
from inspect import Parameter, Signature, signature
from typing import Any


def command_of(run: Callable[..., object], parameters: Sequence[Parameter] | None = None) -> Callable[..., None]:
    """Make a command of a function.

    typer sees ``parameters``, or those of the function with the fields of dataclasses in place of the dataclasses.
    """

    def command(**given: Any) -> None:
        run(**gathered(run, given))

    # typer reads this signature instead of the one of `command`.
    shown = parameters_of(run) if parameters is None else parameters
    command.__doc__ = run.__doc__
    command.__signature__ = Signature(shown)  # type: ignore[attr-defined]
    command.__annotations__ = {parameter.name: parameter.annotation for parameter in shown}
    return command


def gathered(run: Callable[..., object], given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of a function from given values; dataclasses are made from the values of their fields."""
    left = dict(given)
    for name, part in _own(run).items():
        if is_dataclass(part.annotation) and isinstance(part.annotation, type):
            left[name] = part.annotation(**{field.name: left.pop(field.name) for field in fields(part.annotation)})
    return left


def parameters_of(run: Callable[..., object]) -> list[Parameter]:
    """Return the parameters of a function or dataclass for typer, with fields in place of dataclasses."""
    found = []
    for part in _own(run).values():
        if is_dataclass(part.annotation) and isinstance(part.annotation, type):
            found += parameters_of(part.annotation)
        else:
            found.append(part.replace(kind=Parameter.KEYWORD_ONLY))
    return found


def _own(run: Callable[..., object]) -> dict[str, Parameter]:
    return dict(signature(run, eval_str=True).parameters)


# Module and function that return the names of each registry.
_REGISTRIES = {
    "solvers": ("allocopt.solving.protocol", "solver_names"),
    "policies": ("allocopt.simulator.scheduler", "policy_names"),
    "pod policies": ("allocopt.gpu_sharing.placing", "pod_policy_names"),
    "groupings": ("allocopt.simulator.groups", "grouping_names"),
    "artifacts": ("allocopt.reproduction", "reproduction_names"),
}


def names_of(registry: str) -> Callable[[str], list[str]]:
    """Return a function that completes names of a registry, such as ``solvers``; after a comma, the next name."""

    def complete(incomplete: str) -> list[str]:
        # The shell replaces the whole word, so completions repeat the names before the comma.
        before, comma, begun = incomplete.rpartition(",")
        module, names = _REGISTRIES[registry]
        known = getattr(import_module(module), names)()
        return [f"{before}{comma}{name}" for name in known if name.startswith(begun)]

    return complete
