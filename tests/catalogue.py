"""The words of the pages and their translations: `python -m tests.catalogue` brings both files of the catalogue up to
date (`make translations`); tests/house/test_translations.py asks whether they are."""

import ast
import re
import struct
import sys
from collections.abc import Iterator
from pathlib import Path

import django
from django.conf import settings
from django.template import engines

from project.templatetags.desk import TIERS
from project.templatetags.saying import Say
from tests.house import tree

FOLDER = tree.ROOT / "project" / "locale" / "zh_Hans" / "LC_MESSAGES"
PO, MO = FOLDER / "django.po", FOLDER / "django.mo"
HEAD = "Content-Type: text/plain; charset=UTF-8\nLanguage: zh_Hans\nPlural-Forms: nplurals=1; plural=0;\n"
ARGUMENT = re.compile(r"""\b_\("([^"]+)"\)""")  # of a tag or a filter
SCRIPT = re.compile(r"""\bsay\('([^']+)'""")
SHOWN = {"label", "help_text", "reversible", "blast_radius"}  # of a form's field: translated where it is drawn
DRAWN = {  # every sentence among their arguments
    *("Now", "Need", "Figure", "Trouble", "Question", "question", "Found"),
    *("number", "address_field", "plain_field", "secret_field", "pick"),
}
TOLD = {"success", "info", "warning", "error"}  # of django.contrib.messages
CALLS = {"words", "phrase", "spoken", "later"}  # of project.lib.language
READ = {**dict.fromkeys(CALLS, 0), "Look": 2, "ValidationError": 0, "add_error": 1}  # which argument is read


def words() -> dict[str, str]:
    """Every English text that a page says, and the file it was found in first."""
    found: dict[str, str] = {}
    for path in tree.templates():
        for text in of_template(path.read_text()):
            found.setdefault(text, tree.named(path))
    for path in tree.modules():
        for text in of_module(path):
            found.setdefault(text, tree.named(path))
    for risk in (*TIERS, *(f"{one} risk" for one in TIERS)):
        found.setdefault(risk.capitalize(), "project/templatetags/desk.py")
    for path in tree.scripts():
        for text in SCRIPT.findall(path.read_text()):
            found.setdefault(text, tree.named(path))
    return found


def of_template(source: str) -> Iterator[str]:
    template = engines["django"].from_string(source).template
    yield from (node.words for node in template.nodelist.get_nodes_by_type(Say))
    yield from ARGUMENT.findall(source)


def of_module(path: Path) -> Iterator[str]:
    for node in ast.walk(tree.parsed(path)):
        if isinstance(node, ast.Call):
            yield from of_call(node)
        elif (isinstance(node, ast.ClassDef) and is_refusal(node)) or (
            isinstance(node, ast.FunctionDef) and is_handler(node)
        ):
            yield ast.get_docstring(node) or ""


def is_refusal(node: ast.ClassDef) -> bool:
    """A class of project.lib.problem.Problem with a code of its own: its docstring is what people read."""
    coded = {getattr(one.targets[0], "id", "") for one in node.body if isinstance(one, ast.Assign)}
    return {"code", "http"} <= coded


def is_handler(node: ast.FunctionDef) -> bool:
    """What ships: its docstring stands on its page, and beside the triggers that start it."""
    named = [one.func for one in node.decorator_list if isinstance(one, ast.Call)]
    return any(getattr(one, "id", getattr(one, "attr", "")) == "handler" for one in named)


def of_call(call: ast.Call) -> Iterator[str]:
    name = call.func.id if isinstance(call.func, ast.Name) else getattr(call.func, "attr", "")
    shown = [each.value for each in call.keywords if each.arg in SHOWN]
    if name in READ and (isinstance(call.func, ast.Name) or name != "words"):
        shown += call.args[READ[name] :][:1]
    elif name in DRAWN:
        shown += [each for each in (*call.args, *(pair.value for pair in call.keywords)) if is_sentence(each)]
    elif name in TOLD and getattr(getattr(call.func, "value", None), "id", "") == "messages":
        shown += call.args[1:2]
    for each in shown:
        yield from (
            part.value.strip() for part in parts(each) if isinstance(part, ast.Constant) and is_words(part.value)
        )


def parts(node: ast.expr) -> Iterator[ast.expr]:
    """What a value may be: itself, or either end of a conditional."""
    if isinstance(node, ast.IfExp):
        yield from parts(node.body)
        yield from parts(node.orelse)
    else:
        yield node


def is_sentence(node: ast.expr) -> bool:
    """Not the name of an icon, a page or a tone."""
    return isinstance(node, ast.Constant) and bool(re.match(r"[A-Z].*[a-z]|.* ", str(node.value)))


def is_words(value: object) -> bool:
    return isinstance(value, str) and bool(value)


def read(text: str) -> dict[str, str]:
    """A .po file as we write it: one line a text, no plurals, no contexts."""
    pairs = re.findall(r'^msgid (".*")\nmsgstr (".*")$', text, re.MULTILINE)
    return {unquoted(one): unquoted(other) for one, other in pairs}


def written(translations: dict[str, str], found: dict[str, str]) -> str:
    blocks = [f'msgid ""\nmsgstr {quoted(HEAD)}\n']
    blocks += [
        f"#: {found[text]}\nmsgid {quoted(text)}\nmsgstr {quoted(translations.get(text, ''))}\n" for text in found
    ]
    return "\n".join(blocks)


def quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'


def unquoted(text: str) -> str:
    return re.sub(r"\\(.)", lambda mark: "\n" if mark[1] == "n" else mark[1], text[1:-1])


def compiled(translations: dict[str, str]) -> bytes:
    """The .mo file: two tables of lengths and places, then the texts (GNU gettext manual, "MO Files")."""
    pairs = sorted((one.encode(), other.encode()) for one, other in ({"": HEAD} | translations).items() if other)
    keys, values = [one for one, _ in pairs], [other for _, other in pairs]
    start = 28
    place = start + 16 * len(pairs)
    tables = b""
    for text in (*keys, *values):
        tables += struct.pack("<2I", len(text), place)
        place += len(text) + 1
    head = struct.pack("<7I", 0x950412DE, 0, len(pairs), start, start + 8 * len(pairs), 0, place)
    return head + tables + b"".join(text + b"\0" for text in (*keys, *values))


def main() -> None:
    found = words()
    known = read(PO.read_text()) if PO.exists() else {}
    FOLDER.mkdir(parents=True, exist_ok=True)
    PO.write_text(written(known, found))
    now = read(PO.read_text())
    MO.write_bytes(compiled(now))
    missing = [text for text in found if not now[text]]
    print(*missing, f"{len(found)} texts, {len(missing)} without a translation", sep="\n")
    sys.exit(bool(missing))


if __name__ == "__main__":
    settings.configured or django.setup()
    main()
