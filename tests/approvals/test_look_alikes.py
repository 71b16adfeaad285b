"""A host in look-alike letters is told with the name behind it; what a field cannot draw stands beside it."""

import pytest

from approvals.errors import NotValid
from approvals.kinds import KINDS
from tests import builders

LOOK_ALIKE = "https://\u0430pple.com/pay"  # a Cyrillic a
HTTP = KINDS["http.request"]

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize(
    ("url", "told"),
    [
        (LOOK_ALIKE, "\u0430pple.com (xn--pple-43d.com)"),
        ("https://b\u00fccher.example/", "b\u00fccher.example (xn--bcher-kva.example)"),
        ("https://apple.com/pay", "apple.com"),
        ("https://xn--pple-43d.com/pay", "xn--pple-43d.com"),
    ],
)
def test_the_headline_and_the_card_say_which_host_is_asked(url, told, ben, sign_in):
    given = {"method": "PUT", "url": url, "json": {}}
    assert HTTP.headline_of(given) == f"Put to {told}"
    hosts = [line["text"] for line in HTTP.summary(given) if line["label"] == "Host"]
    assert hosts == ([told] if "(" in told else [])
    page = sign_in(ben).get(f"/actions/{builders.action('http.request', arguments=given).pk}").content.decode()
    assert told in page


@pytest.mark.parametrize("host", ["a\u0300\u0301-.example", "\u2488com.example", "-\u0430.example"])
def test_a_host_that_nobody_can_look_up_is_refused(host):
    with pytest.raises(NotValid, match=r"no host|web address"):
        HTTP.read({"method": "PUT", "url": f"https://{host}/"})


def test_what_hides_in_an_argument_stands_beside_its_field(ann, ben, sign_in):
    given = {"repo": "acme/shop", "number": 7, "body": "Thank\u200b you\u202e, Ann"}
    action = builders.action("github.comment", by=ann, arguments=given)
    page = sign_in(ben).get(f"/actions/{action.pk}/edit").content.decode()
    assert "Characters that a field does not show stand in it:" in page
    assert "U+200B" in page
    assert "U+202E" in page
    plain = builders.action("github.comment", by=ann, arguments={**given, "body": "Thank you"})
    assert "a field does not show" not in sign_in(ben).get(f"/actions/{plain.pk}/edit").content.decode()
