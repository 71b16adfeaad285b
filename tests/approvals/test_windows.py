"""Change windows over nights, zones and the days on which clocks are set; and how people are counted."""

from datetime import UTC, datetime

import pytest

from approvals.errors import NotValid
from approvals.tallying import Panel, merged, tally
from approvals.windows import Window, checked_windows, next_opening

FRIDAY = datetime(2026, 5, 1, 12, 0, tzinfo=UTC)


def opening(at, *windows, zone="UTC"):
    return next_opening([(zone, tuple(map(Window.of, checked_windows([each])))) for each in windows], at)


def test_without_windows_it_is_now():
    assert next_opening([], FRIDAY) == FRIDAY


def test_inside_it_is_now_and_outside_the_next_opening():
    office = {"days": ["mon", "fri"], "from": "09:00", "to": "17:00"}
    assert opening(FRIDAY, office) == FRIDAY
    assert opening(FRIDAY.replace(hour=17), office) == datetime(2026, 5, 4, 9, 0, tzinfo=UTC)


def test_a_window_over_midnight_ends_on_the_next_day():
    night = {"days": ["thu"], "from": "22:00", "to": "06:00"}
    assert opening(datetime(2026, 5, 1, 5, 59, tzinfo=UTC), night).hour == 5
    assert opening(datetime(2026, 5, 1, 6, 0, tzinfo=UTC), night) == datetime(2026, 5, 7, 22, 0, tzinfo=UTC)


def test_the_zone_counts_also_when_clocks_are_set():
    morning = {"days": ["sun"], "from": "09:00", "to": "10:00"}
    winter, summer = datetime(2026, 3, 21, 12, 0, tzinfo=UTC), datetime(2026, 3, 28, 12, 0, tzinfo=UTC)
    assert opening(winter, morning, zone="Europe/Berlin") == datetime(2026, 3, 22, 8, 0, tzinfo=UTC)
    assert opening(summer, morning, zone="Europe/Berlin") == datetime(2026, 3, 29, 7, 0, tzinfo=UTC)


def test_windows_of_several_rules_must_all_be_open():
    early, late = {"from": "08:00", "to": "12:00"}, {"from": "11:00", "to": "20:00"}
    assert opening(FRIDAY, early, late) == datetime(2026, 5, 2, 11, 0, tzinfo=UTC)


def test_windows_that_never_meet_never_open():
    assert opening(FRIDAY, {"from": "08:00", "to": "09:00"}, {"from": "10:00", "to": "11:00"}) is None


@pytest.mark.parametrize(
    "given", [{}, [1], [{"days": ["day"]}], [{"from": "25:00"}], [{"from": 9}], [{"at": "9:00"}], [{"days": "mon"}]]
)
def test_what_is_no_window_is_refused(given):
    with pytest.raises(NotValid):
        checked_windows(given)


class TestTally:
    @pytest.mark.parametrize(
        ("groups", "needed", "people", "given", "each"),
        [
            ([], 2, ["r", "r", "r"], 2, ()),
            ([("f", 1), ("l", 1)], 2, ["f", "f"], 1, (1, 0)),
            ([("f", 1), ("l", 1)], 2, ["fl", "f"], 2, (1, 1)),
            ([("f", 1), ("l", 1)], 2, ["fl"], 1, (1, 0)),
            ([("f", 2), ("l", 1)], 3, ["fl", "f", "fl"], 3, (2, 1)),
            ([("f", 1)], 3, ["f", "x"], 2, (1,)),
            ([("f", 1), ("l", 1), ("s", 1)], 3, ["fls", "fl", "f"], 3, (1, 1, 1)),
        ],
    )
    def test_one_seat_a_person_and_as_many_seats_as_can_be(self, groups, needed, people, given, each):
        rows = [Panel((name,), quorum) for name, quorum in groups]
        for order in (people, people[::-1]):
            found = tally(rows, needed, [set(names) for names in order])
            assert found.given == given
            if given == needed:
                assert found.each == each

    def test_the_order_of_names_makes_no_other_group(self):
        both = merged([Panel(("a", "b"), 1), Panel(("b", "a"), 2), Panel(("a",), 1)])
        assert both == (Panel(("a", "b"), 2), Panel(("a",), 1))
