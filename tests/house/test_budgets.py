"""What a browser must load stays small: our own files as they are served, compressed."""

import gzip
import re
from pathlib import Path

import django_htmx

from project import assets
from tests.house import tree

KIB = 1024
SCRIPTS, STYLES = 32 * KIB, 9 * KIB  # of all files together; a page loads the same ones everywhere
TONES = ("ok", "run", "wait", "retry", "fail", "dead", "skip", "dim")
HTMX = Path(django_htmx.__file__).parent / "static" / "django_htmx" / "htmx-2.min.js"


def weight(content: bytes) -> int:
    return len(gzip.compress(content, 9))


def files(suffix: str) -> list[Path]:
    found = sorted((tree.ROOT / "project" / "static").glob(f"*.{suffix}"))
    assert found
    return found


def test_the_scripts_with_htmx():
    ours = [assets.lean_script(path.read_text()).encode() for path in files("js")]
    assert sum(map(weight, [HTMX.read_bytes(), *ours])) <= SCRIPTS


def test_what_is_left_out_of_a_script_changes_nothing():
    text = "// why\n(() => {\n  const a = '// b'; // c\n\n    // d\n  say(`http://e`);\n})();\n"
    assert assets.lean_script(text) == "(() => {\nconst a = '// b'; // c\n\nsay(`http://e`);\n})();\n"


def test_no_text_of_a_script_goes_over_more_than_one_line():
    lines = [line for path in files("js") for line in assets.lean_script(path.read_text()).splitlines()]
    assert [line for line in lines if line.count("`") % 2 or ("/*" in line and "*/" not in line)] == []


def test_the_styles():
    assert sum(weight(assets.lean(path.read_text()).encode()) for path in files("css")) <= STYLES


def test_what_is_left_out_of_a_style_changes_nothing():
    text = '/* why */\n.a  > .b {\n  color: red;  --x: calc(1px + 2px);\n}\n.c::after { content: "a  b; /* c */"; }\n'
    assert assets.lean(text) == '.a>.b{color:red;--x:calc(1px + 2px)}.c::after{content:"a  b; /* c */"}'


def test_every_class_that_is_styled_is_worn_somewhere():
    """The page of an approval has a budget too: tests/approvals/test_pages.py."""
    bare = re.sub(r"/\*.*?\*/|\{[^{}]*\}", " ", "".join(path.read_text() for path in files("css")), flags=re.DOTALL)
    styled = set(re.findall(r"\.([a-z][\w-]*)", bare))
    makers = [*tree.templates(), *tree.modules(), *files("js")]
    worn = set(re.findall(r"[a-z][\w-]*", " ".join(path.read_text() for path in makers)))
    built = {f"{start}{tone}" for start in ("is-", "on-") for tone in TONES}  # a template puts these together
    assert sorted(styled - worn - built) == []
