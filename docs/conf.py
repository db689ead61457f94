"""Configuration of Sphinx, with which `make docs` builds the site without a network."""

import gc
import sys
from pathlib import Path

import allocopt

sys.path.insert(0, str(Path(__file__).parent / "_extensions"))

# The document trees live until the end of a build; searching them for garbage takes a sixth of its time.
gc.disable()

project = "allocopt"
author = copyright = "The allocopt developers"
version = release = allocopt.__version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "numpydoc",
    "mathml",
    "notebooks",
    "page_titles",
    "public_names",
    "signatures",
]
exclude_patterns = ["README.md"]
nitpicky = True
default_role = "autolink"
language = "en"

myst_enable_extensions = ["amsmath", "dollarmath"]
myst_heading_anchors = 4

html_theme = "furo"
html_title = f"allocopt {release}"
html_math_renderer = "mathml"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_copy_source = False
html_show_sphinx = False
pygments_style, pygments_dark_style = "tango", "monokai"

autoclass_content = "class"
autodoc_class_signature = "mixed"
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_typehints_format = "short"
autodoc_default_options = {"members": True}
python_maximum_signature_line_length = 88
add_module_names = False
autosummary_generate = False
numpydoc_show_class_members = False

nitpick_ignore_regex = [
    # Inventories of other packages are not downloaded, so their names cannot be linked.
    (r"py:.*", r"(collections|enum|fractions|gymnasium|networkx|matplotlib|np|numpy|pathlib|time|typing)\..*"),
    # Names of annotations in `allocopt.plot`, which imports matplotlib only when it draws.
    (r"py:class", r"Axes|Comparable"),
    # Every name in single backticks that can be imported becomes a reference, but not every part has a page.
    (r"py:obj", r"[\w.]+"),
    # Records of the engine and arguments of its compiled parts are not part of the interface.
    (r"py:class", r"allocopt\.(cluster\.multicore|envs|problems|simulator)\.[\w.]+"),
    # Type parameters of problems, solutions and rows.
    (r"py:class", r"allocopt\.[\w.]+\.(S|P|P_contra|R)"),
]
