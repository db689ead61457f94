"""Resolves references to a class by its defining module to its public name, `allocopt.NAME`."""

from typing import Any

from docutils import nodes
from sphinx.addnodes import pending_xref
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment

import allocopt

PUBLIC = frozenset(allocopt.__all__)


def public_reference(
    app: Sphinx, environment: BuildEnvironment, node: pending_xref, content: nodes.TextElement
) -> nodes.reference | None:
    """Resolve a name of this package that is documented as a public one; None if it is not."""
    module, _, name = node.get("reftarget", "").rpartition(".")
    if node.get("refdomain") != "py" or name not in PUBLIC or not f"{module}.".startswith(("allocopt.", ".")):
        return None
    domain = environment.get_domain("py")
    found: Any = domain.resolve_any_xref(environment, node["refdoc"], app.builder, f"allocopt.{name}", node, content)
    return found[0][1] if found else None


def setup(app: Sphinx) -> dict[str, bool]:
    """Try the public name if a reference cannot be resolved."""
    app.connect("missing-reference", public_reference)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
