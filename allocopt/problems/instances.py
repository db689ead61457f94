"""Instance files: problems as JSON, one in a ``.json`` file, one a line in a ``.jsonl`` file, ``.gz`` or not."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from allocopt.errors import BadFileError, InvalidProblemError, UsageError
from allocopt.files.faults import bad_file, memory_faults_named, shown
from allocopt.files.models import INSTANCE_FORMAT, VERSION, check_header, validated
from allocopt.files.reading import parse_json, read_text
from allocopt.files.writing import compact_json, json_by_line, write_text
from allocopt.problems.base import Problem
from allocopt.problems.kind import ProblemKind, get_kind, kind_names, kind_of, shipped_instances


@memory_faults_named
def read_problems(path: Path | str) -> list[Problem]:
    """Read every problem of an instance file.

    Parameters
    ----------
    path
        One instance, or one a line if the name ends in ``.jsonl`` or ``.jsonl.gz``; blank lines are skipped. Or
        ``@tiny``, ``@knapsacks`` or ``@coallocations``, which come with the package.

    Raises
    ------
    BadFileError
        If the file cannot be read or anything in it is wrong; it names file, place and fault.
    """
    path = instance_path(Path(path))
    text = read_text(path)
    if not _holds_several(path):
        return [problem_from_object(parse_json(text, path), path)]
    problems: list[Problem] = []
    lines: dict[str, int] = {}
    for number, line in _filled_lines(text):
        where = f"{path}: line {number}"
        problem = problem_from_object(parse_json(line, path, first_line=number), where)
        if problem.name in lines:
            raise bad_file(where, "name", f"is {shown(problem.name)}, which line {lines[problem.name]} has already")
        lines[problem.name] = number
        problems.append(problem)
    if not problems:
        raise bad_file(path, "is empty, must hold one instance a line")
    return problems


def write_problems(path: Path | str, problems: Sequence[Problem]) -> None:
    """Write problems into one instance file; several need a name that ends in ``.jsonl`` or ``.jsonl.gz``.

    Raises
    ------
    BadFileError
        If the file cannot be written, or would not be read again: no problem, a name twice or no file name.
    """
    path = Path(path)
    objects = [object_from_problem(problem) for problem in problems]
    for problem, obj in zip(problems, objects, strict=True):
        validated(kind_of(problem).codec.instance_model, obj, f"{path}: instance {shown(problem.name)}")
    names = [problem.name for problem in problems]
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise bad_file(path, f"cannot hold two instances named {shown(twice)}")
    if _holds_several(path) and objects:
        write_text(path, "".join(f"{compact_json(obj)}\n" for obj in objects))
    elif len(objects) == 1:
        write_text(path, json_by_line(objects[0]))
    else:
        raise bad_file(
            path, f"cannot hold {len(objects)} instances; one goes into a .json file, more into a .jsonl file"
        )


def problem_from_object(obj: object, where: Path | str) -> Problem:
    """Make a problem of a parsed instance.

    Parameters
    ----------
    obj
        What `parse_json` returned.
    where
        The file, or ``FILE: line N``, for messages.

    Raises
    ------
    BadFileError
        If anything in it is wrong.
    """
    codec = _kind(check_header(obj, where, INSTANCE_FORMAT), where).codec
    model = validated(codec.instance_model, obj, where)
    try:
        return codec.problem_of(model)
    except InvalidProblemError as error:
        raise bad_file(where, error.place, error.fault) from None


def object_from_problem(problem: Problem) -> dict[str, object]:
    """Turn a problem into the object that stands in an instance file."""
    header: dict[str, object] = {
        "format": INSTANCE_FORMAT,
        "version": VERSION,
        "kind": problem.kind,
        "name": problem.name,
    }
    return header | kind_of(problem).codec.keys_of(problem)


def _holds_several(path: Path) -> bool:
    """Whether the name promises one instance a line."""
    return path.name.endswith((".jsonl", ".jsonl.gz"))


def _filled_lines(text: str) -> Iterator[tuple[int, str]]:
    """Lines that are not blank, with their numbers."""
    return ((number, line) for number, line in enumerate(text.split("\n"), start=1) if line.strip())


def _kind(header: dict[str, object], where: Path | str) -> ProblemKind[Problem, object]:
    known = " or ".join(map(repr, kind_names()))
    if "kind" not in header:
        raise bad_file(where, "kind", f"is missing, must be {known}")
    kind = header["kind"]
    if not isinstance(kind, str) or kind not in kind_names():
        raise bad_file(where, "kind", f"is {shown(kind)}, must be {known}")
    return get_kind(kind)


def read_instances(arguments: Sequence[Path]) -> list[Problem]:
    """Read the instances of several files, whose names must differ from file to file as well.

    Raises
    ------
    BadFileError
        If a file is wrong, or two instances have the same name.
    """
    problems: list[Problem] = []
    seen: dict[str, Path] = {}
    for path in map(instance_path, arguments):
        for problem in read_problems(path):
            if problem.name in seen:
                fault = f"{problem.name!r} is the name of an instance in {seen[problem.name]} too"
                raise BadFileError(f"{path}: name: {fault}")
            seen[problem.name] = path
            problems.append(problem)
    return problems


def shipped_problems(kind: str) -> list[Problem]:
    """Read the small instances that come with a kind; none where none do."""
    shipped = get_kind(kind).shipped
    return [] if shipped is None else read_problems(shipped[1])


def instance_path(argument: Path) -> Path:
    """Return the file that a path or the name of shipped instances, such as ``@tiny``, stands for.

    Raises
    ------
    UsageError
        If it begins like such a name and is none.
    """
    name = str(argument)
    if not name.startswith("@") or argument.exists():
        return argument
    shipped = shipped_instances()
    if name not in shipped:
        raise UsageError(f"there are no shipped instances {name!r}; there are {', '.join(shipped)}")
    return shipped[name]
