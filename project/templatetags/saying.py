"""`{% say %}…{% endsay %}`: our own words in a page, in the language of whoever reads. Built in: no page loads it.

What stands between is the English, and its text is the key of the catalogue. Variables and tags in it are slots, named
by their last word, so that another language can move them: `Asked {when} by {handler}`. In English the inside is drawn
as it stands."""

import re
from collections.abc import Iterator
from typing import Any

from django import template
from django.template import Context
from django.template.base import Node, NodeList, Parser, TextNode, Token, TokenType
from django.utils.safestring import SafeString, mark_safe
from django.utils.translation import get_language, gettext, to_locale

from project.lib import language

register = template.Library()
register.filter("spoken", language.spoken)

SLOT = re.compile(r"\{(\w+)\}")
SPACES = re.compile(r"\s+")
PLURAL = "s"  # the slot of `|pluralize`: a language without plurals leaves it out


class Say(Node):
    """English with slots, and what fills them."""

    def __init__(self, nodelist: NodeList) -> None:
        self.nodelist = nodelist
        self.slots: dict[str, Node] = {}
        self.before, self.words, self.after = trimmed("".join(self.parts()))

    def parts(self) -> Iterator[str]:
        for node in self.nodelist:
            if isinstance(node, TextNode):
                yield node.s
            else:
                name = free(slot_name(node), self.slots)
                self.slots[name] = node
                yield f"{{{name}}}"

    def render(self, context: Context) -> SafeString:
        if language.is_english():
            return self.nodelist.render(context)
        text = gettext(self.words)
        if text == self.words:
            return self.nodelist.render(context)
        drawn = SLOT.sub(lambda slot: self.filled(slot, context), text)
        return mark_safe(f"{self.before}{drawn}{self.after}")  # the text is of our catalogue, a slot escapes itself

    def filled(self, slot: re.Match[str], context: Context) -> str:
        """What stands in a slot; braces that are none of ours stay."""
        node = self.slots.get(slot[1])
        return str(node.render_annotated(context)) if node else slot[0]


@register.simple_tag
def spoken_language() -> str:
    """`en`, `zh-Hans`: for the `lang` of a page."""
    return to_locale(get_language() or language.ENGLISH).replace("_", "-")


@register.tag
def say(parser: Parser, token: Token) -> Say:
    nodelist = parser.parse(("endsay",))
    parser.delete_first_token()
    return Say(nodelist)


def trimmed(text: str) -> tuple[str, str, str]:
    """The white space before, the words with single spaces, the white space after."""
    words = text.strip()
    start = text.index(words)
    return text[:start], SPACES.sub(" ", words), text[start + len(words) :]


def slot_name(node: Node) -> str:
    """`handler` of `{{ card.action.run.handler }}`, `when` of `{% when … %}`."""
    token: Any = node.token
    if token is None or token.token_type != TokenType.VAR:
        return str(token.contents.split()[0]) if token else "it"
    value, _, filters = token.contents.partition("|")
    return PLURAL if "pluralize" in filters else value.split(".")[-1].strip("'\" ")


def free(name: str, taken: dict[str, Node]) -> str:
    number = 2
    found = name
    while found in taken:
        found, number = f"{name}{number}", number + 1
    return found
