"""Makes of a drawing an SVG element for a page, whose colours follow the page, or a file that stands alone."""

import re
from collections.abc import Iterator, Mapping, Sequence
from xml.etree import ElementTree

from allocopt.report.html.palette import LIGHT
from allocopt.report.html.words import printable

SVG = "http://www.w3.org/2000/svg"
XLINK = "http://www.w3.org/1999/xlink"
FONTS = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', Arial, sans-serif"
SHAPES = {f"{{{SVG}}}path", f"{{{SVG}}}use"}

_ROLES = {value: role for role, value in LIGHT.items()}
_COLOUR = re.compile("|".join(_ROLES))
_REFERENCE = re.compile(r"url\(#")
_FONT = re.compile(r"(font: [^;']*?)'DejaVu Sans'[^;]*")
_DECIMALS = re.compile(r"(\d+\.\d\d)\d+")


def page_element(
    text: str, name: str, css_class: str, said: tuple[str, str], titles: Mapping[str, Sequence[str]]
) -> str:
    """Return the element of a page: colours are variables, the width is the page's, ids begin with its name.

    Parameters
    ----------
    text
        What matplotlib wrote.
    name
        Unique in the page.
    css_class
        Class of the element.
    said
        Title and description of the figure, for those who do not see it.
    titles
        What is said of the shapes of a group when a reader points at them.
    """
    root = _prepared(text, titles)
    for element in root.iter():
        for key, value in list(element.attrib.items()):
            element.set(key, _for_page(key, value, name))
    title, description = map(printable, said)
    about = ElementTree.Element(f"{{{SVG}}}desc", {"id": f"{name}-desc"})
    about.text = description
    root.insert(0, about)
    root.attrib.update(
        {"class": css_class, "role": "img", "aria-label": title, "aria-describedby": f"{name}-desc", "id": name}
    )
    for size in ("width", "height"):
        root.attrib.pop(size, None)
    return ElementTree.tostring(root, encoding="unicode")


def file_text(text: str, title: str, description: str, titles: Mapping[str, Sequence[str]]) -> str:
    """Return a file: the same drawing on white, with its title and description."""
    root = _prepared(text, titles)
    root.attrib["role"] = "img"
    ground = ElementTree.Element(f"{{{SVG}}}rect", {"width": "100%", "height": "100%", "fill": LIGHT["surface"]})
    for place, (tag, words) in enumerate((("title", title), ("desc", description))):
        child = ElementTree.Element(f"{{{SVG}}}{tag}")
        child.text = printable(words)
        root.insert(place, child)
    root.insert(2, ground)
    return ElementTree.tostring(root, encoding="unicode") + "\n"


def _prepared(text: str, titles: Mapping[str, Sequence[str]]) -> ElementTree.Element:
    """Parse a drawing, leave out what is of no use, and put in the titles of its shapes."""
    ElementTree.register_namespace("", SVG)
    ElementTree.register_namespace("xlink", XLINK)
    root = ElementTree.fromstring(text)
    for child in list(root):
        if child.tag == f"{{{SVG}}}metadata":
            root.remove(child)
    for element in root.iter():
        if "d" in element.attrib:
            element.set("d", " ".join(_DECIMALS.sub(r"\1", element.attrib["d"]).split()))
        if "style" in element.attrib:
            element.set("style", _FONT.sub(rf"\1{FONTS}", element.attrib["style"]))
    for group in [element for element in root.iter() if element.get("id") in titles]:
        _put_titles(group, titles[str(group.get("id"))])
    return root


def _put_titles(group: ElementTree.Element, titles: Sequence[str]) -> None:
    """Give the shapes of a group their titles, one each."""
    shapes = list(_shapes(group))
    for shape, title in zip(shapes, titles, strict=True):
        child = ElementTree.SubElement(shape, f"{{{SVG}}}title")
        child.text = printable(title)


def _shapes(group: ElementTree.Element) -> Iterator[ElementTree.Element]:
    """Yield the shapes that are drawn, not those that are defined."""
    for child in group:
        if child.tag in SHAPES:
            yield child
        elif child.tag != f"{{{SVG}}}defs":
            yield from _shapes(child)


def _for_page(key: str, value: str, name: str) -> str:
    """Return an attribute as the page has it."""
    if key == "id":
        return f"{name}-{value}"
    if key == f"{{{XLINK}}}href" and value.startswith("#"):
        return f"#{name}-{value[1:]}"
    if key in ("style", "fill", "stroke"):
        value = _COLOUR.sub(lambda found: f"var(--{_ROLES[found.group()]})", value)
    return _REFERENCE.sub(f"url(#{name}-", value)
