"""A run's bars: waits are drawn short, what happened stays visible, nothing leaves the picture."""

from datetime import UTC, datetime, timedelta
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from triggers.views.timeline import Bar, Row, span, timeline

START = datetime(2026, 11, 29, 3, 4, 3, tzinfo=UTC)
TONES = ("ok", "fail", "run", "wait", "retry", "queue")


def row(tone, start, end):
    return Row("step", "done", [Bar(tone, START + timedelta(seconds=start), START + timedelta(seconds=end))])


def percent(text):
    return float(text.removesuffix("%"))


def test_a_night_of_waiting_leaves_room_for_the_work():
    line = timeline([row("ok", 0, 12), row("wait", 12, 8 * 3600), row("ok", 8 * 3600, 8 * 3600 + 4)], shorten=True)
    first, wait, last = (percent(row.drawn[0].width) for row in line.rows)
    assert first > 45
    assert 20 < wait < 40
    assert last > 10
    assert "7 h 59 min, shortened" in [mark.text for mark in line.marks]


def test_unshortened_every_second_is_as_wide_as_the_next():
    line = timeline([row("ok", 0, 1), row("wait", 1, 99), row("ok", 99, 100)], shorten=False)
    assert [row.drawn[0].width for row in line.rows] == ["1.00%", "98.00%", "1.00%"]
    assert not any("shortened" in mark.text for mark in line.marks)


def test_what_took_no_time_is_still_seen():
    line = timeline([row("ok", 0, 0), row("ok", 0, 60), row("fail", 60, 60)], shorten=True)
    assert all(percent(row.drawn[0].width) >= 0.5 for row in line.rows)


def test_a_run_that_only_waits_fills_the_picture():
    line = timeline([row("queue", 0, 1), row("wait", 1, 60)], shorten=True)
    assert percent(line.rows[1].drawn[0].width) > 90
    assert line.has_waits


bars = st.tuples(st.sampled_from(TONES), st.floats(0, 1e6), st.floats(0, 1e6))


@given(st.lists(bars, max_size=12), st.booleans())
def test_every_bar_and_word_lies_inside_the_picture(spans, shorten):
    line = timeline([row(tone, min(a, b), max(a, b)) for tone, a, b in spans], shorten=shorten)
    for each in line.rows:
        for bar in each.drawn:
            assert percent(bar.x) >= 0
            assert percent(bar.x) + percent(bar.width) <= 100.02
            assert 0 <= percent(bar.note_at) <= 100
    assert all(0 <= percent(mark.x) <= 100 for mark in line.marks)


@given(st.lists(st.floats(0, 1e5), min_size=1, max_size=8), st.booleans())
def test_order_in_time_is_order_on_the_axis(moments, shorten):
    rows = [row("ok", at, at) for at in sorted(moments)]
    places = [percent(each.drawn[0].x) for each in timeline(rows, shorten=shorten).rows]
    assert places == sorted(places)


@given(st.lists(bars, max_size=12), st.booleans())
def test_no_word_of_the_axis_stands_on_another_where_it_is_narrowest(spans, shorten):
    line = timeline([row(tone, min(a, b), max(a, b)) for tone, a, b in spans], shorten=shorten)
    letter, wide = 6, 320  # pixels, in a window of 1280
    words = [(percent(mark.x) / 100 * wide, len(mark.text) * letter, mark.anchor) for mark in line.marks]
    places = sorted((x - width if anchor == "end" else x, width) for x, width, anchor in words)
    assert all(left + width <= right for (left, width), (right, _) in pairwise(places))


def test_durations_in_words():
    words = [span(0.021), span(4.9), span(12), span(452), span(3 * 3600), span(2 * 86400 + 4 * 3600)]
    assert words == ["21 ms", "4.9 s", "12 s", "7 min 32 s", "3 h", "2 d 4 h"]
