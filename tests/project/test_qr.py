"""The picture of a secret that an authenticator app reads."""

import re

import pytest
import segno

from project.lib import qr


def test_what_is_drawn_is_the_code_itself() -> None:
    drawn = qr.picture("otpauth://totp/Nightdesk", "Code")
    places = {(int(y) - qr.QUIET, int(x) - qr.QUIET) for x, y in re.findall(r"M(\d+),(\d+)h1", drawn)}
    rows = enumerate(segno.make_qr("otpauth://totp/Nightdesk", error="m").matrix)
    assert places == {(y, x) for y, row in rows for x, bit in enumerate(row) if bit}


def test_the_picture_needs_no_style_and_says_what_it_is() -> None:
    drawn = qr.picture("nightdesk", 'The "picture"')
    assert "style" not in drawn
    assert 'aria-label="The &quot;picture&quot;"' in drawn


def test_what_does_not_fit_is_refused() -> None:
    with pytest.raises(ValueError, match="Data too large"):
        qr.picture("x" * 3000, "too much")
