"""Make the links of the README absolute, for PyPI. Everything else stands in pyproject.toml."""

import re
from pathlib import Path
from runpy import run_path

from setuptools import setup

ROOT = Path(__file__).parent
TAG = "v" + run_path(str(ROOT / "allocopt" / "version.py"))["__version__"]
PICTURES = f"https://raw.githubusercontent.com/allocopt/allocopt/{TAG}/"
FILES = f"https://github.com/allocopt/allocopt/blob/{TAG}/"

text = (ROOT / "README.md").read_text(encoding="utf-8")
text = re.sub(r"(!\[[^]]*\]\()(?!https?:|#)", rf"\g<1>{PICTURES}", text)
text = re.sub(r"(?<!!)(\[[^]]*\]\()(?!https?:|#)", rf"\g<1>{FILES}", text)

setup(long_description=text, long_description_content_type="text/markdown")
