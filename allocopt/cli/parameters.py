"""Commands made of functions of one value: every field of a dataclass is an argument or option."""

from collections.abc import Callable, Sequence
from inspect import Parameter, Signature, signature
from typing import Any, TypeVar

Options = TypeVar("Options")


def takes(options: type[Options]) -> Callable[[Callable[[Options], None]], Callable[..., None]]:
    """Make a command of a function; its argument is a dataclass whose fields are annotated for typer."""

    def decorate(run: Callable[[Options], None]) -> Callable[..., None]:
        def command(**given: Any) -> None:
            run(options(**given))

        return with_parameters(command, run.__doc__, parameters_of(options))

    return decorate


def parameters_of(options: type[Any]) -> list[Parameter]:
    """Return the fields of a dataclass as keyword parameters."""
    found = signature(options, eval_str=True).parameters.values()
    return [parameter.replace(kind=Parameter.KEYWORD_ONLY) for parameter in found]


def with_parameters(
    command: Callable[..., None], doc: str | None, parameters: Sequence[Parameter]
) -> Callable[..., None]:
    """Give a function of keywords the parameters and the text that typer shows."""
    command.__doc__ = doc
    command.__signature__ = Signature(parameters)  # type: ignore[attr-defined]
    command.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return command
