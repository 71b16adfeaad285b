"""Characters that hide or reorder text are shown by their code point, so what is read is what is there (XS-02)."""

import re
import unicodedata

from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

KEPT = "\n\t"  # the only control characters a reader expects
# Zero-width and bidirectional controls that are not of category Cc/Cf everywhere, plus look-alikes of nothing.
BLANK = {"\u115f", "\u1160", "\u3164", "\uffa0", "\u034f", "\u2028", "\u2029"}
JOINERS = {"\u200c", "\u200d"}  # needed inside emoji and in some scripts; shown all the same


def is_odd(char: str) -> bool:
    """Whether `char` is invisible or changes the direction of what follows."""
    if char in KEPT:
        return False
    return char in BLANK or char in JOINERS or unicodedata.category(char) in {"Cc", "Cf", "Co", "Cs", "Cn"}


def name_of(char: str) -> str:
    return unicodedata.name(char, "CONTROL CHARACTER")


ODD = re.compile(r"[^\n\t\x20-\x7e]")


def spans(text: str) -> list[tuple[str, bool]]:
    """`text` cut into (piece, is it an odd character), in order."""
    out: list[tuple[str, bool]] = []
    start = 0
    for found in ODD.finditer(text):
        if is_odd(found[0]):
            out += [(text[start : found.start()], False), (found[0], True)]
            start = found.end()
    return [*out, (text[start:], False)]


def visible(text: object) -> SafeString:
    """`text` escaped for HTML, each odd character drawn as a marked code point with its name as title."""
    pieces = spans(str(text))
    if len(pieces) == 1:
        return format_html("{}", pieces[0][0])
    return format_html_join("", "{}", ((drawn(piece, odd),) for piece, odd in pieces if piece))


def drawn(piece: str, odd: bool) -> SafeString:
    if not odd:
        return format_html("{}", piece)
    return format_html('<span class="odd" title="{}">{}</span>', name_of(piece), f"U+{ord(piece):04X}")


def plain(text: object) -> str:
    """The same for places without HTML, as a tab title: `⟨U+202E⟩`."""
    return "".join(f"⟨U+{ord(piece):04X}⟩" if odd else piece for piece, odd in spans(str(text)))
