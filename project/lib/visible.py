"""Characters that hide or reorder text are shown by their code point, so what is read is what is there (XS-02)."""

import re
import unicodedata

from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

KEPT = "\n\t"  # the only control characters a reader expects
# What Unicode calls Default_Ignorable_Code_Point (DerivedCoreProperties.txt 15.0): drawn as nothing where it is not
# understood, so anything can be written in it. Some are letters or marks by their category.
IGNORABLE = (
    *((0xAD, 0xAD), (0x34F, 0x34F), (0x61C, 0x61C), (0x115F, 0x1160), (0x17B4, 0x17B5), (0x180B, 0x180F)),
    *((0x200B, 0x200F), (0x202A, 0x202E), (0x2060, 0x206F), (0x3164, 0x3164), (0xFE00, 0xFE0F), (0xFEFF, 0xFEFF)),
    *((0xFFA0, 0xFFA0), (0xFFF0, 0xFFF8), (0x1BCA0, 0x1BCA3), (0x1D173, 0x1D17A), (0xE0000, 0xE0FFF)),
)
BLANK = {"\u2028", "\u2029", "\u2800", "\U0001d159"}  # separators, and what is drawn as nothing at all
STYLES = {"\ufe0e", "\ufe0f"}  # one behind a symbol says whether it is drawn as text or in colour


def is_odd(char: str) -> bool:
    """Whether `char` is invisible or changes the direction of what follows."""
    if char in KEPT:
        return False
    if char in BLANK or any(first <= ord(char) <= last for first, last in IGNORABLE):
        return True
    return unicodedata.category(char) in {"Cc", "Cf", "Co", "Cs", "Cn"}


def styles(text: str, at: int) -> bool:
    """Is the character there the one that says how the symbol before it is drawn?"""
    return text[at] in STYLES and at > 0 and unicodedata.category(text[at - 1]) == "So"


def name_of(char: str) -> str:
    return unicodedata.name(char, "CONTROL CHARACTER")


ODD = re.compile(r"[^\n\t\x20-\x7e]")


def spans(text: str) -> list[tuple[str, bool]]:
    """`text` cut into (piece, is it an odd character), in order."""
    out: list[tuple[str, bool]] = []
    start = 0
    for found in ODD.finditer(text):
        if is_odd(found[0]) and not styles(text, found.start()):
            out += [(text[start : found.start()], False), (found[0], True)]
            start = found.end()
    return [*out, (text[start:], False)]


def hidden_in(text: str, *, near: int = 20, most: int = 8) -> list[str]:
    """Each odd character with what stands around it, the first of them; what stands together is one place."""
    places = [found.start() for found in ODD.finditer(text) if is_odd(found[0]) and not styles(text, found.start())]
    shown: list[str] = []
    end = -1
    for at in places:
        if at >= end and len(shown) < most:
            end = at + near
            shown.append(text[max(0, at - near) : end])
    return shown


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
