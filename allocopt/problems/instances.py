"""Instance files: problems as JSON, one per ``.json`` file or one per line of a ``.jsonl`` file, also as ``.gz``."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from allocopt.errors import BadFileError, UsageError
from allocopt.files.faults import bad_file, memory_faults_named, problem_faults_named, shown
from allocopt.files.models import INSTANCE_FORMAT, VERSION, check_header, validated
from allocopt.files.reading import parse_json, read_text
from allocopt.files.writing import compact_json, json_by_line, write_text
from allocopt.problems.base import Problem
from allocopt.problems.kind import get_kind, kind_names, kind_of, working_kinds


@memory_faults_named
def read_problems(path: Path | str) -> list[Problem]:
    """Read all problems of an instance file, or of a shipped one, such as ``@tiny`` or ``@placements``.

    The file holds one instance, or one per line if its name ends in ``.jsonl`` or ``.jsonl.gz``. Blank lines are
    skipped. Raises `BadFileError`, which names file, place and fault, if the file cannot be read or is wrong.
    """
    path = instance_path(Path(path))
    text = read_text(path)
    if not _holds_several(path):
        return [problem_from_object(parse_json(text, path), path)]
    problems: list[Problem] = []
    lines: dict[str, int] = {}
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.strip():
            continue
        where = f"{path}: line {number}"
        problem = problem_from_object(parse_json(line, path, first_line=number), where)
        if problem.name in lines:
            raise bad_file(where, "name", f"is {shown(problem.name)}, which line {lines[problem.name]} has already")
        lines[problem.name] = number
        problems.append(problem)
    if not problems:
        raise bad_file(path, "is empty, must hold one instance per line")
    return problems


def write_problems(path: Path | str, problems: Sequence[Problem]) -> None:
    """Write problems into one instance file; several need a file name that ends in ``.jsonl`` or ``.jsonl.gz``.

    Raises `BadFileError` if the file cannot be written or could not be read again: it would hold no problem, two
    problems of the same name, or a name that is not allowed in files.
    """
    path = Path(path)
    objects = [object_from_problem(problem) for problem in problems]
    for problem, obj in zip(problems, objects, strict=True):
        # A problem made in Python may have values that files must not have, such as a name with a slash.
        validated(kind_of(problem).codec.instance_model, obj, f"{path}: instance {shown(problem.name)}")
    for name, count in Counter(problem.name for problem in problems).items():
        if count > 1:
            raise bad_file(path, f"cannot hold two instances named {shown(name)}")
    if _holds_several(path) and objects:
        write_text(path, "".join(f"{compact_json(obj)}\n" for obj in objects))
    elif len(objects) == 1:
        write_text(path, json_by_line(objects[0]))
    else:
        fault = f"cannot hold {len(objects)} instances; write one into a .json file, several into a .jsonl file"
        raise bad_file(path, fault)


def problem_from_object(obj: object, where: Path | str) -> Problem:
    """Return the problem of a parsed instance; raise `BadFileError` if the instance is wrong.

    ``where`` is the file, or ``FILE: line N``, for messages.
    """
    kind, known = check_header(obj, where, INSTANCE_FORMAT).get("kind", ...), kind_names()
    if not isinstance(kind, str) or kind not in known:
        fault = "is missing" if kind is ... else f"is {shown(kind)}"
        raise bad_file(where, "kind", f"{fault}, must be {' or '.join(map(repr, known))}")
    codec = get_kind(kind).codec
    model = validated(codec.instance_model, obj, where)
    with problem_faults_named(where):
        return codec.problem_of(model)


def object_from_problem(problem: Problem) -> dict[str, object]:
    """Return a problem as the object that an instance file holds."""
    header = {"format": INSTANCE_FORMAT, "version": VERSION, "kind": problem.kind, "name": problem.name}
    return {**header, **kind_of(problem).codec.keys_of(problem)}


def _holds_several(path: Path) -> bool:
    return path.name.endswith((".jsonl", ".jsonl.gz"))


def read_instances(arguments: Sequence[Path]) -> list[Problem]:
    """Read the instances of several files; raise `BadFileError` if one is wrong or two have the same name."""
    problems: dict[str, tuple[Problem, Path]] = {}
    for path in map(instance_path, arguments):
        for problem in read_problems(path):
            if problem.name in problems:
                fault = f"{problem.name!r} is also the name of an instance in {problems[problem.name][1]}"
                raise BadFileError(f"{path}: name: {fault}")
            problems[problem.name] = problem, path
    return [problem for problem, _ in problems.values()]


def shipped_problems(kind: str) -> list[Problem]:
    """Read the small instances that come with a kind; return an empty list if there are none."""
    shipped = get_kind(kind).shipped
    return [] if shipped is None else read_problems(shipped[1])


def instance_path(argument: Path) -> Path:
    """Return the path of a file or of shipped instances such as ``@tiny``; raise `UsageError` for an unknown name."""
    name = str(argument)
    # An existing file with such a name takes precedence.
    if not name.startswith("@") or argument.exists():
        return argument
    shipped = dict(kind.shipped for kind in working_kinds() if kind.shipped is not None)
    if name not in shipped:
        raise UsageError(f"there are no shipped instances {name!r}; choose from {', '.join(shipped)}")
    return shipped[name]
