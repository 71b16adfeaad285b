"""A body in XML as JSON: elements by name, texts as texts. Document types and entities are refused."""

import json
from typing import Any
from xml.etree import ElementTree

from triggers.errors import BadDelivery
from triggers.reading import Reading, clean

DEEPEST = 20  # elements inside each other


def read_xml(body: bytes) -> Reading:
    """Raises BadDelivery."""
    if b"<!DOCTYPE" in body or b"<!ENTITY" in body:
        raise BadDelivery("XML with a document type is not taken.")
    if b"\x00" in body:
        raise BadDelivery("XML is taken in UTF-8 only.")  # in UTF-16 the words above would not be seen
    try:
        root = ElementTree.fromstring(body)
    except ElementTree.ParseError as error:
        raise BadDelivery(f"The body is not XML: {error}") from error
    value, count = clean(value_of(root, DEEPEST))
    return Reading(value, json.dumps(value, ensure_ascii=False), count)


def value_of(element: ElementTree.Element, deepest: int) -> Any:
    """A name that comes again becomes a list."""
    if not deepest:
        raise BadDelivery("The XML is nested too deep.", code="too_deep")
    if not len(element):
        return element.text or ""
    found: dict[str, list[Any]] = {}
    for child in element:
        found.setdefault(child.tag, []).append(value_of(child, deepest - 1))
    return {name: values[0] if len(values) == 1 else values for name, values in found.items()}
