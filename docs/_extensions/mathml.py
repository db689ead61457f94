"""Writes mathematics as MathML, which browsers draw without a script or a network."""

from docutils import nodes
from docutils.utils.math import MathError, latex2mathml
from sphinx.application import Sphinx
from sphinx.util import logging
from sphinx.writers.html5 import HTML5Translator

logger = logging.getLogger(__name__)


def visit_inline(translator: HTML5Translator, node: nodes.math) -> None:
    """Write a formula within a line."""
    translator.body.append(_converted(node, as_block=False))
    raise nodes.SkipNode


def visit_display(translator: HTML5Translator, node: nodes.math_block) -> None:
    """Write a displayed formula, which scrolls if the page is too narrow."""
    translator.body.append(f'<div class="formula">{_converted(node, as_block=True)}</div>\n')
    raise nodes.SkipNode


def _converted(node: nodes.Element, *, as_block: bool) -> str:
    """Return a formula as MathML. If it cannot be read, warn and return its source."""
    latex = node.astext().strip()
    for delimiter in (r"\begin{align*}", r"\end{align*}"):
        latex = latex.removeprefix(delimiter).removesuffix(delimiter)
    try:
        return str(latex2mathml.tex2mathml(latex, as_block=as_block))
    except MathError as error:
        logger.warning("the formula %r cannot be read: %s", latex, error, location=node)
        return f"<code>{nodes.unescape(latex)}</code>"


def setup(app: Sphinx) -> dict[str, bool]:
    """Register this module as the renderer ``mathml``."""
    app.add_html_math_renderer("mathml", inline_renderers=(visit_inline, None), block_renderers=(visit_display, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
