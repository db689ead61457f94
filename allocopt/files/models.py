"""The shape of files, as pydantic models: the file boundary only, no part of the package computes with them.

They say what a file looks like; whether its values fit together is for what is made of them to say.
"""

from typing import Annotated, Any, ClassVar, Literal

from pydantic import AfterValidator, Field

from allocopt.files.validation import FileModel, Text

INT64_MAX = 2**63 - 1
LONGEST_NAME = 200
"""Bytes of an instance name, which becomes a file name."""

INSTANCE_FORMAT = "allocopt-instance"
SOLUTION_FORMAT = "allocopt-solution"


def _file_stem(name: str) -> str:
    """Refuse an instance name that could not be the name of its solution file."""
    for separator in "/\\":
        if separator in name:
            raise ValueError(f"holds {separator!r}, must be usable as a file name")
    if name in (".", ".."):
        raise ValueError(f"is {name!r}, must be usable as a file name")
    if len(name.encode()) > LONGEST_NAME:
        raise ValueError(f"is {len(name.encode())} bytes long, must be at most {LONGEST_NAME}")
    return name


InstanceName = Annotated[
    Text, AfterValidator(_file_stem), Field(description="Name of the instance; usable as a file name.")
]
Positive = Annotated[int, Field(ge=1, le=INT64_MAX)]
Node = Annotated[int, Field(ge=0, le=INT64_MAX)]


def short_number(value: float) -> float:
    """Return a whole number as an integer."""
    value = float(value)
    return int(value) if value.is_integer() and value < 1e15 else value


class InstanceModel(FileModel):
    """What every instance file begins with; a kind narrows ``kind`` and adds the keys of its problems."""

    format: Literal["allocopt-instance"]
    version: Literal[1]
    kind: str
    name: InstanceName


class SolutionModel(FileModel):
    """A solver's answer to one instance; a kind adds its ``strategy`` and the key that holds the solution."""

    kind: ClassVar[str]
    answer_key: ClassVar[str]

    format: Literal["allocopt-solution"]
    version: Literal[1]
    instance: InstanceName
    strategy: Annotated[None, Field(description="The kind has no strategies.")] = None
    solver: Annotated[Text, Field(description="Name of the solver.")]
    status: Literal["OPTIMAL", "FEASIBLE", "INFEASIBLE", "UNKNOWN", "INTERRUPTED"]
    objective: Annotated[float | None, Field(description="Objective of the solution; null without one.")]
    bound: Annotated[float | None, Field(description="Proven bound; null where there is none.")]
    seed: Annotated[int | None, Field(description="Seed that the solver was given.")] = None
    solver_version: Annotated[Text | None, Field(description="Version of what did the work.")] = None

    @classmethod
    def has_strategy(cls) -> bool:
        """Whether solutions of the kind are of a strategy."""
        return cls.model_fields["strategy"].is_required()

    @property
    def answer(self) -> Any:
        """The solution, as the file holds it; None where none was found."""
        return getattr(self, self.answer_key)
