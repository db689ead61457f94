"""Replaces the text of a link that is the name of a file, as code hosts show it, by the title of its page."""

import re
from posixpath import dirname, join, normpath

from docutils import nodes
from sphinx.application import Sphinx

FILE = re.compile(r"[\w./-]+\.md")


def show_titles(app: Sphinx, doctree: nodes.document, page: str) -> None:
    """Replace the names of files in the links of one page."""
    for link in doctree.findall(nodes.reference):
        if link.get("internal") and FILE.fullmatch(link.astext()):
            target = re.sub(r"\.html(#.*)?$", "", link["refuri"])
            title = app.env.titles.get(normpath(join(dirname(page), target)))
            if title is not None:
                link.children = []
                link += nodes.inline("", title.astext())


def setup(app: Sphinx) -> dict[str, bool]:
    """Process every page when its references are resolved."""
    app.connect("doctree-resolved", show_titles)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
