"""In which language a page speaks. What is stored, logged or sent by the API is English, whoever looks."""

from django.conf import settings
from django.http import HttpRequest
from django.utils import translation
from django.utils.translation.trans_real import parse_accept_lang_header

ENGLISH = "en"
later = translation.gettext_lazy  # for choices of a form: said when they are drawn


def is_english() -> bool:
    return translation.get_language() in (ENGLISH, None)


def words(text: str) -> str:
    """Marks English that a page shows later, by `spoken`, so that the catalogue has it."""
    return text


def spoken(said: object) -> str:
    """Words of our own code in the language of whoever reads; whatever is in no catalogue stays as it is."""
    text = str(said)
    core = text.strip()
    return text if not core or is_english() else text.replace(core, translation.gettext(core), 1)


def phrase(text: str, **facts: object) -> str:
    """A sentence that is put together for a page: English with named slots, such as `{n} d ago`."""
    return spoken(text).format(**facts)


def language_of(request: HttpRequest) -> str:
    """What the person chose; else the first that the browser asks for and the desk speaks; else the desk's own."""
    chosen = str(getattr(request.user, "language", ""))
    if chosen in dict(settings.LANGUAGES):
        return chosen
    for wish, _ in parse_accept_lang_header(request.headers.get("Accept-Language", "").lower()):
        try:
            return translation.get_supported_language_variant(wish)
        except LookupError:
            continue
    return settings.PAGES_LANGUAGE
