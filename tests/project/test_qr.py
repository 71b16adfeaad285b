"""A text as a picture that phones read: the same modules as the encoder `qrcode` draws, whose answers are kept here."""

import hashlib

import pytest

from project.lib import qr

# version -> the hash of what qrcode 8 draws of a text three bytes short of it, under the mask `version % 8`
DRAWN = {
    1: "18484a7da9f26d9a",
    2: "c3792641eb7d977e",
    3: "480358e4db574080",
    4: "eaaebd486fbe3645",
    5: "b7ef6ec3e6300cae",
    6: "2793d8551ce94f41",
    7: "640c87a692dfc605",
    8: "a601c9978cf56a1d",
    9: "e4d05ea43d82ea4a",
    10: "4c861af121fb7cef",
}


def capacity(version: int) -> int:
    return sum(qr.BLOCKS[version][1]) - 2 - (version > 9)


@pytest.mark.parametrize("version", qr.BLOCKS)
def test_every_version_is_drawn_as_others_draw_it(version: int) -> None:
    text = ("nightdesk:" * 30)[: capacity(version) - 3].encode()
    bits = list(qr.spread(qr.codewords(text, version)))
    flat = "".join(str(bit) for row in qr.masked(version, bits, version % 8) for bit in row)
    assert hashlib.sha256(flat.encode()).hexdigest()[:16] == DRAWN[version]


@pytest.mark.parametrize("version", qr.BLOCKS)
def test_the_smallest_that_holds_it_is_taken(version: int) -> None:
    assert len(qr.modules(b"x" * capacity(version))) == 17 + 4 * version
    assert qr.smallest_for(b"x" * (capacity(version - 1) + 1 if version > 1 else 1)) == version


def test_what_does_not_fit_is_refused() -> None:
    with pytest.raises(ValueError, match="do not fit"):
        qr.modules(b"x" * (capacity(10) + 1))


def test_the_mask_is_the_one_that_scanners_read_best() -> None:
    text = b"otpauth://totp/Nightdesk"
    bits = list(qr.spread(qr.codewords(text, qr.smallest_for(text))))
    version = qr.smallest_for(text)
    assert qr.modules(text) == min((qr.masked(version, bits, mask) for mask in range(8)), key=qr.penalty)


def test_the_picture_needs_no_style_and_says_what_it_is() -> None:
    drawn = qr.picture("nightdesk", 'The "picture"')
    assert "style" not in drawn
    assert 'aria-label="The &quot;picture&quot;"' in drawn
    assert drawn.count("M") == sum(map(sum, qr.modules(b"nightdesk")))
