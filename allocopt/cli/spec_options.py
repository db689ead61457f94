"""Make commands that run a specification: some fields have options, ``--spec`` and ``--set`` set any field."""

from collections.abc import Callable, Sequence
from inspect import Parameter
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar, get_args, get_origin

import typer
from typer.core import TyperCommand

from allocopt.cli.options import file_option
from allocopt.cli.parameters import command_of, names_of, parameters_of
from allocopt.errors import UsageError
from allocopt.experiments.fields import Specification, bare_type

Spec = TypeVar("Spec", bound=Specification)
Options = TypeVar("Options")

_METAVARS = {int: "N", float: "X", str: "TEXT", list: "N,N,..."}


def spec_command(
    run: Callable[[Spec, Options], object], spec: type[Spec], own: Sequence[str], options: type[Options]
) -> Callable[..., None]:
    """Make a command of a function that takes a specification and a dataclass of options.

    The fields of the specification in ``own`` become options, except the first one, which becomes the argument.
    """
    fields = [f"{name}=" for name in spec.model_fields]
    assignments = typer.Option(
        "--set",
        metavar="FIELD=VALUE",
        help=f"Set any field of `allocopt schema {spec.__name__.removesuffix('Spec').lower()}`; repeatable.",
        autocompletion=lambda incomplete: [one for one in fields if one.startswith(incomplete)],
    )

    def of_spec(
        file: Annotated[Path | None, file_option("Take fields from this .toml file.", "--spec", metavar="FILE")] = None,
        texts: Annotated[list[str] | None, assignments] = None,
        **given: Any,
    ) -> None:
        values = {name: value for name in own if (value := given.pop(name)) not in (None, [])}
        for name, value in values.items():
            if name == "options":
                values[name] = parse_options(value)
            elif isinstance(value, str):
                values[name] = spec.value_of(name, value)
        run(spec.assembled(file, values, texts or []), options(**given))

    of_spec.__doc__ = run.__doc__
    # The first parameter is the argument, which has no default.
    parameters = [_shorthand(spec, name, is_argument=name == own[0]) for name in own]
    command = command_of(of_spec, [*parameters, *parameters_of(of_spec)[:-1], *parameters_of(options)])
    command.command_class = _command_class(spec)  # type: ignore[attr-defined]
    return command


def _command_class(spec: type[Specification]) -> type[TyperCommand]:
    class SpecCommand(TyperCommand):
        def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
            known = {text for parameter in self.params for text in (*parameter.opts, *parameter.secondary_opts)}
            for word in args:
                option, _, value = word.partition("=")
                name = option.removeprefix("--").removeprefix("no-").replace("-", "_")
                if option.startswith("--") and option not in known and name in spec.model_fields:
                    # A flag takes no value; --no-NAME means false.
                    if spec.model_fields[name].annotation in (bool, bool | None):
                        value = "false" if option.startswith("--no-") else "true"
                    raise UsageError(f"{option}: use --set {name}={value or 'VALUE'}, or {name} in the file of --spec")
            return super().parse_args(ctx, args)

    return SpecCommand


def parse_options(texts: Sequence[str]) -> dict[str, Any]:
    """Return the options of ``NAME=VALUE`` texts; a value is read as JSON (a number, true, false) or else as text."""
    options: dict[str, Any] = {}
    for text in texts:
        name, separator, value = text.partition("=")
        if not separator or not name:
            raise UsageError(f"option {text!r} must look like NAME=VALUE")
        options[name.replace("-", "_")] = Specification.plain_value(value)
    return options


def _shorthand(spec: type[Specification], name: str, *, is_argument: bool) -> Parameter:
    field, registry = spec.model_fields[name], spec.about(name).names
    kind = bare_type(field.annotation)
    choices = get_args(kind) if get_origin(kind) is Literal else ()
    metavar = "KIND" if choices else _METAVARS.get(get_origin(kind) or kind)
    settings: dict[str, Any] = {"help": field.description}
    if isinstance(field.default, str | int | float) and not isinstance(field.default, bool):
        # In brackets, as typer shows other defaults; the real default of the option is None.
        settings["help"] = f"{field.description}  [default: {field.default}]"
    if registry:
        settings["autocompletion"] = names_of(registry)
    elif choices:
        settings["autocompletion"] = lambda incomplete: [one for one in choices if one.startswith(incomplete)]
    if is_argument:
        is_list = get_origin(kind) is list
        made: Any = Annotated[
            list[str] | None if is_list else str | None, typer.Argument(metavar=name.rstrip("s").upper(), **settings)
        ]
    elif kind is bool:
        flag = name.replace("_", "-")
        made = Annotated[bool | None, typer.Option(f"--{flag}/--no-{flag}", **settings)]
    elif name == "options":
        made = Annotated[list[str] | None, typer.Option("--option", metavar="NAME=VALUE", **settings)]
    else:
        if spec.about(name).is_file:
            metavar = "FILE,..." if get_origin(kind) is list else "FILE"
        made = Annotated[str | None, typer.Option(metavar=metavar, **settings)]
    return Parameter(name, Parameter.KEYWORD_ONLY, default=None, annotation=made)
