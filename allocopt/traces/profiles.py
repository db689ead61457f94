"""Tables of the profiles of applications, as TOML."""

from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from allocopt.errors import InvalidProblemError
from allocopt.files.faults import bad_file
from allocopt.files.models import FileModel, Text, validated
from allocopt.files.reading import read_toml
from allocopt.traces.executables import Executable, Executables
from allocopt.traces.job_profile import Stage, StageKind

ShareOfOne = Annotated[float, Field(ge=0, le=1)]


class StageModel(FileModel):
    """A stage of an application."""

    share: Annotated[ShareOfOne, Field(description="Share of the run time alone; they sum to 1.")]
    cpu: Annotated[ShareOfOne, Field(description="Share of its cores that a parallel stage keeps busy alone.")] = 1.0
    memory: Annotated[ShareOfOne, Field(description="Share of the memory beside the job's cores.")] = 0.0
    io: Annotated[ShareOfOne, Field(description="Share of the time in which it does I/O, alone.")] = 0.0
    kind: Annotated[Literal["sequential", "parallel"], Field(description="Whether it uses one core or all.")] = (
        "parallel"
    )


class ApplicationModel(FileModel):
    """An application."""

    executable: Annotated[int, Field(ge=0, description="Its number in traces.")]
    name: Annotated[Text, Field(description="Its name.")]
    stages: Annotated[list[StageModel], Field(min_length=1, description="Its stages, in order.")]


class ProfilesModel(FileModel):
    """A table."""

    application: Annotated[list[ApplicationModel], Field(min_length=1, description="The applications.")]


def read_profiles(path: Path | str) -> Executables:
    """Read a table of profiles.

    Parameters
    ----------
    path
        A TOML file with a list ``application`` of tables: ``executable``, ``name`` and ``stages``, each of which has a
        ``share`` and may have ``cpu``, ``memory``, ``io`` and ``kind``.

    Raises
    ------
    BadFileError
        If the file cannot be read, or a value is wrong; it names the place.
    """
    table: dict[int, Executable] = {}
    for index, model in enumerate(validated(ProfilesModel, read_toml(Path(path)), path).application):
        if model.executable in table:
            raise bad_file(path, f"application[{index}].executable", f"is {model.executable}, which is given before")
        stages = (Stage(one.share, one.cpu, one.memory, one.io, StageKind(one.kind)) for one in model.stages)
        try:
            table[model.executable] = Executable(model.name, tuple(stages))
        except InvalidProblemError as error:
            raise bad_file(path, error.place, error.fault) from None
    return table
