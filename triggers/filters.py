"""Filters at the moment they are saved: refused, or cut into clauses with the paths each of them reads.

`common-expression-language` (Rust) evaluates but shows no syntax tree, so `cel-python` parses here, and only here.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NotRequired, TypeAlias, TypedDict

import cel

from project.lib.deferred import deferred
from project.lib.text import nearest
from triggers.errors import BadFilter

if TYPE_CHECKING:
    import lark
    from celpy import celparser
else:
    lark = deferred("lark")
    celparser = deferred("celpy.celparser")

LONGEST = 2000  # characters of one filter
DEEPEST = 40  # brackets in brackets
EACH = "*"  # in a path: every item of the list
TYPES = frozenset({"bool", "bytes", "double", "int", "list", "map", "null_type", "string", "type", "uint"})
MACROS = frozenset({"all", "exists", "exists_one", "existsOne", "filter", "map"})
CALENDAR = frozenset(
    f"get{part}"
    for part in ("FullYear", "Month", "DayOfYear", "DayOfMonth", "Date", "DayOfWeek", "Hours", "Minutes", "Seconds")
)
FUNCTIONS = CALENDAR | frozenset(
    {"size", "contains", "startsWith", "endsWith", "matches", "has", "type", "dyn", "timestamp", "duration"}
    | {"int", "uint", "double", "string", "bytes", "getMilliseconds"}
)
WANTED = {
    "relation_eq": "{}",
    "relation_ne": "anything but {}",
    "relation_lt": "less than {}",
    "relation_le": "at most {}",
    "relation_gt": "more than {}",
    "relation_ge": "at least {}",
    "relation_in": "one of {}",
}

PLACED = re.compile(r"(\d+):(\d+): (?:Syntax error: )?(.*)")
SPOKEN = (  # of the parser's own phrases
    (re.compile("mismatched input '<EOF>'"), "it ends too early"),
    (re.compile("missing '(.+?)' at '<EOF>'"), "`{}` is missing at its end"),
    (re.compile("missing '(.+?)' at '(.+?)'"), "`{}` is missing before `{}`"),
    (re.compile("(?:extraneous|mismatched) input '(.+?)'"), "`{}` does not belong there"),
    (re.compile("token recognition error at: '(.+?) ?'$"), "`{}` is no part of the language"),
    (re.compile("no viable alternative at input '(.+?)'"), "`{}` is not understood"),
)

Path = tuple[str, ...]
Node: TypeAlias = "lark.Tree[lark.Token]"


@dataclass(frozen=True, slots=True)
class Language:
    """What an expression is called in refusals, and the names it may read."""

    called: str
    roots: tuple[str, ...]
    example: str
    members: dict[str, frozenset[str]] = field(default_factory=dict, compare=False)  # of roots that have no others

    @property
    def scope(self) -> dict[str, Path | None]:
        return {root: (root,) for root in self.roots}


FILTER = Language("filter", ("event", "headers"), "event.data.n > 3")


class Clause(TypedDict):
    """One part between top-level `&&`; `wanted` says in words what a simple comparison asks for."""

    text: str
    paths: list[list[str]]
    wanted: NotRequired[str]
    simple: NotRequired[tuple[str, str | int | bool]]  # `path == literal`: what is compared, and with what


class FilterPlan(TypedDict):
    """What is stored with a trigger: the text, its clauses, and every path it reads."""

    text: str
    clauses: list[Clause]
    paths: list[list[str]]


@dataclass(slots=True)
class Reader:
    """Walks one clause; collects the paths it reads and refuses what a filter may not do."""

    language: Language
    paths: list[Path] = field(default_factory=list)

    def walk(self, node: Node, scope: dict[str, Path | None], inside: bool = False) -> None:
        """`scope` names the variables of the comprehension around `node` and the list each of them comes from."""
        if (path := path_of(node, scope)) is not None:
            refuse_no_member(path, self.language)
            self.paths.append(path)
        elif node.data == "member_dot_arg" and str(node.children[1]) in MACROS:
            self.comprehension(node, scope, inside)
        else:
            refuse_unknown(node, scope, self.language)
            for child in trees(node):
                self.walk(child, scope, inside)

    def comprehension(self, node: Node, scope: dict[str, Path | None], inside: bool) -> None:
        if inside:
            raise BadFilter(f"A {self.language.called} may not hold a comprehension inside a comprehension.")
        receiver, _, *rest = node.children
        assert isinstance(receiver, lark.Tree)
        self.walk(receiver, scope, inside)
        arguments = list(trees(rest[0])) if rest and isinstance(rest[0], lark.Tree) else []
        variable = path_name(arguments[0]) if len(arguments) > 1 else None
        if variable is None:
            raise BadFilter(f"`{node.children[1]}` needs a variable and a condition, as in `.exists(item, item > 3)`.")
        over = path_of(receiver, scope)
        for body in arguments[1:]:
            self.walk(body, {**scope, variable: over and (*over, EACH)}, inside=True)


@lru_cache(maxsize=1)
def parser() -> "celparser.CELParser":
    """The library's own loses where `true` and `false` stand, and with it where a clause ends."""

    class Parser(celparser.CELParser):
        @staticmethod
        def ambiguous_literals(t: "lark.Token") -> "lark.Token":
            return lark.Token.new_borrow_pos("BOOL_LIT", t.value, t) if t.value in ("true", "false") else t

    celparser.CELParser.CEL_PARSER = None  # the grammar is kept on the class; it must be read with our callback
    return Parser()


def compile_filter(text: str, language: Language = FILTER) -> FilterPlan:
    """Cut a CEL filter, or another expression of the desk, at its top-level `&&`.

    Raises BadFilter, with a sentence for the person who wrote it, when it does not compile, reads an unknown name,
    is too long or too deep, or holds a comprehension inside a comprehension. An empty text lets everything through.
    """
    text = text.strip()
    if not text:
        return {"text": "", "clauses": [], "paths": []}
    refuse_size(text, language)
    try:
        cel.compile(text)
        tree = parser().parse(text)
    except (ValueError, celparser.CELParseError) as error:
        raise BadFilter(f"The {language.called} does not compile: {first_line(error)}") from error
    clauses = [clause_of(text, part, language) for part in conjuncts(tree)]
    paths = sorted({tuple(path) for clause in clauses for path in clause["paths"]})
    return {"text": text, "clauses": clauses, "paths": [list(path) for path in paths]}


def refuse_size(text: str, language: Language) -> None:
    if len(text) > LONGEST:
        raise BadFilter(f"A {language.called} has at most {LONGEST} characters; this one has {len(text)}.")
    depth = deepest = 0
    for character in text:
        depth += (character in "([{") - (character in ")]}")
        deepest = max(deepest, depth)
    if deepest > DEEPEST:
        raise BadFilter(f"A {language.called} nests at most {DEEPEST} brackets; this one nests {deepest}.")


def clause_of(text: str, node: Node, language: Language) -> Clause:
    reader = Reader(language)
    reader.walk(node, language.scope)
    source = text[node.meta.start_pos : node.meta.end_pos]
    paths = list(dict.fromkeys(reader.paths))
    if not paths:
        refuse_no_answer(source, language)
    clause: Clause = {"text": source, "paths": [list(path) for path in paths]}
    if wanted := wanted_of(text, node, language):
        clause["wanted"] = wanted
        if simple := simple_of(text, node):
            clause["simple"] = simple
    return clause


def refuse_no_answer(source: str, language: Language) -> None:
    """A clause that reads nothing is the same for every event: it must at least be a yes or a no."""
    try:
        value = cel.evaluate(source, {})
    except (ArithmeticError, LookupError, RuntimeError, TypeError, ValueError) as error:
        raise BadFilter(f"`{source}` can never be evaluated: {first_line(error)}") from error
    if not isinstance(value, bool):
        asks = f"a {language.called} asks something, as in `{language.example}`"
        raise BadFilter(f"`{source}` is neither true nor false: {asks}.")


def simple_of(text: str, node: Node) -> tuple[str, str | int | bool] | None:
    """The operator and the literal of a comparison whose two sides can be compared without the evaluator."""
    relation, right = trees(node)
    literal = unwrapped(right)
    source = text[literal.meta.start_pos : literal.meta.end_pos]
    if literal.data != "literal" or source[-1] in "uU":  # an unsigned number is a kind of its own
        return None
    value = cel.evaluate(source, {})
    return (str(relation.data), value) if type(value) in (str, int, bool) else None


def conjuncts(node: Node) -> Iterator[Node]:
    """The parts of `a && (b && c)`, left to right; what is not a conjunction is one part."""
    bare = unwrapped(node)
    if bare.data == "paren_expr":
        yield from conjuncts(next(trees(bare)))
    elif bare.data == "conditionaland":
        for part in trees(bare):
            yield from conjuncts(part)
    else:
        yield bare


def wanted_of(text: str, node: Node, language: Language) -> str:
    """What `path == literal` and its like ask for, in words; "" for anything less simple."""
    if node.data != "relation" or len(node.children) != 2:
        return ""
    relation, right = trees(node)
    left = next(trees(relation))
    literal = unwrapped(right)
    if path_of(left, language.scope) is None or literal.data not in ("literal", "list_lit"):
        return ""
    try:
        value = cel.evaluate(text[literal.meta.start_pos : literal.meta.end_pos], {})
    except (ValueError, RuntimeError, TypeError):
        return ""
    shown = ", ".join(show(item) for item in value) if isinstance(value, list) else show(value)
    return WANTED[relation.data].format(shown)


def show(value: Any) -> str:
    """A value as a person reads it in an explanation: 'text', 12, true, null; at most 80 characters."""
    words = {True: "true", False: "false", None: "null"}
    text = words[value] if value is None or isinstance(value, bool) else repr(value)
    return text if len(text) <= 80 else f"{text[:79]}…"


def path_of(node: Node, scope: dict[str, Path | None]) -> Path | None:
    """`event.data["a"].b` as ("event", "data", "a", "b"); None when `node` is anything else."""
    bare = unwrapped(node)
    if bare.data in ("ident", "dot_ident"):
        name = str(bare.children[0])
        return scope.get(name)
    if bare.data not in ("member_dot", "member_index"):
        return None
    receiver, last = bare.children
    assert isinstance(receiver, lark.Tree)
    before = path_of(receiver, scope)
    key = str(last) if isinstance(last, lark.Token) else key_of(last)
    return None if before is None or key is None else (*before, key)


def key_of(node: Node) -> str | None:
    """The text of a literal string index."""
    bare = unwrapped(node)
    token = bare.children[0] if bare.data == "literal" else None
    if not isinstance(token, lark.Token) or token.type not in ("STRING_LIT", "MLSTRING_LIT"):
        return None
    return str(cel.evaluate(str(token), {}))


def path_name(node: Node) -> str | None:
    bare = unwrapped(node)
    return str(bare.children[0]) if bare.data == "ident" else None


def refuse_unknown(node: Node, scope: dict[str, Path | None], language: Language) -> None:
    name = str(node.children[0]) if node.children else ""
    if node.data in ("ident", "dot_ident") and name not in {*scope, *TYPES}:
        *first, last = (f"`{root}`" for root in language.roots)
        raise BadFilter(f"`{name}` is not known here: a {language.called} reads {', '.join(first)} and {last}.")
    if node.data == "member_dot_arg":
        name = str(node.children[1])
    if node.data in ("member_dot_arg", "ident_arg", "dot_ident_arg") and name not in FUNCTIONS:
        raise BadFilter(f"There is no function `{name}` in a {language.called}.")
    if node.data == "member_object":
        raise BadFilter(f"A {language.called} compares; it cannot build objects.")


def refuse_no_member(path: Path, language: Language) -> None:
    root, *rest = path
    members = language.members.get(root)
    if rest and members is not None and rest[0] not in members:
        raise BadFilter(f"`{root}` has no `{rest[0]}`{nearest(rest[0], members)}")


def compared_with(text: str, path: Path, language: Language) -> list[Any]:
    """The values that an expression compares `path` with, where it writes them: `path == "a"`, `path in ["a"]`."""
    found: list[Any] = []
    for node in parser().parse(text).iter_subtrees():
        if node.data != "relation" or len(node.children) != 2:
            continue
        relation, right = trees(node)
        for one, other in ((next(trees(relation)), right), (right, next(trees(relation)))):
            literal = unwrapped(other)
            if path_of(one, language.scope) == path and literal.data in ("literal", "list_lit"):
                value = cel.evaluate(text[literal.meta.start_pos : literal.meta.end_pos], {})
                found += value if isinstance(value, list) else [value]
    return found


def unwrapped(node: Node) -> Node:
    """`node` without the grammar's levels that say nothing here."""
    levels = ("expr", "conditionalor", "conditionaland", "relation", "addition", "multiplication", "unary", "member")
    while len(node.children) == 1 and node.data in (*levels, "primary"):
        child = node.children[0]
        if not isinstance(child, lark.Tree):
            break
        node = child
    return node


def trees(node: Node) -> Iterator[Node]:
    return (child for child in node.children if isinstance(child, lark.Tree))


def first_line(error: Exception) -> str:
    """What the parser complains of first, in plain words with its place."""
    lines = [line.split("ERROR: <input>:")[-1].strip() for line in str(error).splitlines()]
    if not lines:
        return "it is not a CEL expression."
    found = PLACED.match(lines[0])
    if found is None:
        return lines[0]
    said = next((words.format(*hit.groups()) for shape, words in SPOKEN if (hit := shape.match(found[3]))), found[3])
    return f"{said} (line {found[1]}, column {found[2]})"
