"""``allocopt report``."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from allocopt.cli.options import TOPOLOGY_HELP, Labels, check_files_differ, file_argument, file_option, read_topology


def command(
    results: Annotated[
        list[Path],
        file_argument(
            "Files that allocopt wrote: solutions; rows of solve, bench, simulate, what-if and reproduce; schedules, "
            "placed jobs, learning curves. Their content decides how they are shown.",
            metavar="RESULT",
        ),
    ],
    out: Annotated[Path, file_option("Write the page to this file.", "--out", "-o")] = Path("report.html"),
    figures: Annotated[Path | None, file_option("Also write every figure to this folder, as .svg and .pdf.")] = None,
    instance: Annotated[
        list[Path] | None,
        file_option(
            "Read the instances of the solutions here (or from @tiny) if they are not beside them; repeatable."
        ),
    ] = None,
    topology: Annotated[
        Path | None, file_option(f"Take names and switches of nodes from {TOPOLOGY_HELP}", "--topology")
    ] = None,
    labels: Labels = None,
    title: Annotated[str | None, typer.Option(help="Set the title of the page.")] = None,
) -> None:
    """Make one HTML page of results, with figures and tables, that loads nothing from the network.

    Needs the extra plot (vl-convert, Jinja).
    """
    from allocopt.problems.instances import instance_path
    from allocopt.report.html.contents import contents
    from allocopt.report.html.page import write_report
    from allocopt.report.plot import check_installed

    files = [instance_path(path) for path in results]
    named = [instance_path(path) for path in instance or ()]
    check_files_differ(out, *files, read=[*named, topology])
    # Report equal files and missing packages before reading long files.
    check_installed()
    cluster = None if topology is None else read_topology(topology, labels)
    sections = contents(files, named, cluster)
    heading = title or (sections[0].title if len(sections) == 1 else f"{len(sections)} results")
    write_report(out, heading, sections, figures)
    print(f"{out}: {out.stat().st_size / 1e3:,.0f} kB", file=sys.stderr)
