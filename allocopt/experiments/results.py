"""Result files: the rows of a run, with its specification, the digests of its inputs, and its provenance."""

from collections.abc import Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field

from allocopt.experiments.fields import Specification
from allocopt.experiments.specs import SimulationSpec, SolveSpec
from allocopt.files.faults import bad_file
from allocopt.files.models import VERSION, FileModel, Text, check_header, validated
from allocopt.files.reading import parse_json, read_bytes, read_text
from allocopt.files.writing import json_by_line, write_text
from allocopt.report.provenance import provenance

_FORMAT = "allocopt-result"
_KINDS: Mapping[str, type[Specification]] = {"simulation": SimulationSpec, "solve": SolveSpec}


class _InputModel(FileModel):
    """A file that the run has read."""

    field: Annotated[Text, Field(description="Field that names it.")]
    file: Text
    sha256: Annotated[Text, Field(description="Digest of its content; of a folder, of all files in it.")]


class ResultModel(FileModel):
    """Rows with everything that they depend on; `allocopt rerun` computes them again."""

    format: Literal["allocopt-result"]
    version: Literal[1]
    kind: Literal["simulation", "solve"]
    specification: Annotated[dict[str, Any], Field(description="Fields; paths are relative to this file.")]
    inputs: list[_InputModel]
    made_by: Annotated[dict[str, str], Field(description="Version, commit, Python and machine.")]
    remarks: list[str] = Field(default_factory=list)
    rows: list[dict[str, Any]]

    @staticmethod
    def write(path: Path, spec: Specification, rows: Sequence[Mapping[str, Any]], remarks: Sequence[str] = ()) -> None:
        """Write rows with their specification; raise `BadFileError` if the file cannot be written."""
        kind = next(name for name, one in _KINDS.items() if isinstance(spec, one))
        held = {
            "format": _FORMAT,
            "version": VERSION,
            "kind": kind,
            "specification": spec.seen_from(path.parent),
            "inputs": [
                {"field": place, "file": spec.path_seen_from(name, path.parent), "sha256": _digest_of(file)}
                for place, name, file in spec.files()
            ],
            "made_by": provenance(),
            "remarks": list(remarks),
            "rows": list(rows),
        }
        write_text(path, json_by_line(held))

    @staticmethod
    def read(path: Path) -> "tuple[ResultModel, Specification, list[str]]":
        """Return a result file, its specification with paths from the current folder, and missing or changed inputs."""
        model = validated(ResultModel, check_header(parse_json(read_text(path), path), path, _FORMAT), path)
        kind = _KINDS[model.kind]
        try:
            spec = kind(**kind.seen_from_here(model.specification, path.parent))
        except ValueError as error:
            raise bad_file(path, "specification", str(error)) from None
        now = {place: _digest_of(file) for place, _, file in spec.files()}
        return model, spec, [one.file for one in model.inputs if now.get(one.field) != one.sha256]


def _digest_of(path: Path) -> str:
    if not path.is_dir():
        return sha256(read_bytes(path)).hexdigest()
    inside = sorted(file for file in path.rglob("*") if file.is_file())
    return sha256("".join(f"{file.relative_to(path)} {_digest_of(file)}\n" for file in inside).encode()).hexdigest()
