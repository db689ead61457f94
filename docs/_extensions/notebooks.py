"""Shows notebooks as pages: their cells, with the stored outputs, become Markdown."""

import json
from typing import Any

from docutils import nodes
from myst_parser.parsers.sphinx_ import MystParser
from sphinx.application import Sphinx


class NotebookParser(MystParser):
    """Parse a notebook as a Markdown page."""

    supported = ("ipynb",)

    def parse(self, inputstring: str, document: nodes.document) -> None:
        """Parse the text of a file that Jupyter wrote."""
        super().parse("\n\n".join(markdown_of(cell) for cell in json.loads(inputstring)["cells"]), document)


def markdown_of(cell: dict[str, Any]) -> str:
    """Return one cell as Markdown: its text, or its code and the stored output."""
    source = "".join(cell["source"])
    if cell["cell_type"] == "markdown":
        return source
    first, _, rest = source.partition("\n")
    if first.startswith("%%writefile "):
        path = first.removeprefix("%%writefile ")
        return f"`{path}`\n\n```{LEXERS.get(path.rpartition('.')[2], 'text')}\n{rest}\n```"
    shown = f"```sh\n{rest}\n```" if first == "%%bash" else f"```python\n{source}\n```"
    printed = "".join("".join(output.get("text", "")) for output in cell["outputs"]).rstrip()
    texts = [shown, f"```text\n{printed}\n```"] if printed else [shown]
    return "\n\n".join([*texts, *(_picture(output, cell) for output in cell["outputs"] if "data" in output)])


def _picture(output: dict[str, Any], cell: dict[str, Any]) -> str:
    """Return a stored picture as Markdown; the key ``alt`` of the cell's metadata describes it."""
    place, options = f"data:image/png;base64,{output['data']['image/png']}", output["metadata"]["image/png"]
    return f"```{{image}} {place}\n:alt: {cell['metadata']['alt']}\n:width: {options['width']}px\n```"


LEXERS = {"py": "python", "toml": "toml", "json": "json", "jsonl": "json"}


def setup(app: Sphinx) -> dict[str, bool]:
    """Register files that end in ``.ipynb`` as sources."""
    app.add_source_suffix(".ipynb", "ipynb")
    app.add_source_parser(NotebookParser)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
