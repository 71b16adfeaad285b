"""One concept a file, one thought a function."""

import statistics

from tests.house import tree

MODULE, FUNCTION, MEDIAN, TEMPLATE, SCRIPT = 400, 50, 8, 120, 200  # lines


def lines(path):
    return len(path.read_text().splitlines())


def test_modules():
    assert {tree.named(path): lines(path) for path in tree.modules() if lines(path) > MODULE} == {}


def test_functions():
    lengths = {
        f"{tree.named(path)}:{function.name}": (function.end_lineno or 0) - function.lineno + 1
        for path in tree.modules()
        for function in tree.functions(path)
    }
    assert {name: length for name, length in lengths.items() if length > FUNCTION} == {}
    assert statistics.median(lengths.values()) <= MEDIAN


def test_templates():
    assert {tree.named(path): lines(path) for path in tree.templates() if lines(path) > TEMPLATE} == {}


def test_scripts():
    assert {tree.named(path): lines(path) for path in tree.scripts() if lines(path) > SCRIPT} == {}
