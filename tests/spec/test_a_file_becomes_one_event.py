"""A file that arrives, changes, moves or goes is told once: across restarts, and between two listeners."""

import logging
import os
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.conf import LazySettings
from django.db import DataError

from project.lib import clock
from tests import builders
from tests.conftest import until
from tests.files import Listening, file_source, listening, told
from triggers.ingest import ingest
from triggers.listeners import file, snapshot
from triggers.listeners.file import FileListener
from triggers.listeners.snapshot import Snapshot
from triggers.models import ConfigVersion, Event, Source, Trigger, Watch, WatchedFile
from triggers.sources.file import Look

pytestmark = pytest.mark.django_db(transaction=True)
MANY = 60_000  # files of one burst; the kernel keeps 16,384 hints for whoever is slow


@pytest.fixture
def inbox(tmp_path: Path, settings: LazySettings) -> Path:
    """An empty folder that may be watched."""
    settings.FILE_ROOTS = [str(tmp_path)]
    folder = tmp_path / "inbox"
    folder.mkdir()
    return folder


@pytest.fixture
def source(inbox: Path) -> Source:
    return file_source("inbox", inbox, mode="polling", recursive=True)


def replace(path: Path, text: str) -> None:
    """An atomic save: written beside it, then renamed into place."""
    draft = path.with_name(f".{path.name}.draft")
    draft.write_text(text)
    draft.replace(path)


def test_what_was_there_first_is_not_told(inbox: Path, source: Source) -> None:
    for number in range(120):
        (inbox / f"old-{number}.txt").write_text(str(number))
    with listening(source) as desk:
        assert desk.look() == []
        (inbox / "new.txt").write_text("hello")
        assert desk.look() == [("created", "new.txt")]
    data = Event.objects.get().data
    assert data["path"] == str(inbox / "new.txt")
    assert (data["name"], data["kind"], data["size"]) == ("new.txt", "created", 5)
    assert data["sha256"] == "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824"
    assert data["mtime"].endswith("Z")
    assert WatchedFile.objects.count() == 121


def test_what_changed_while_nobody_listened_is_told_at_the_next_start(inbox: Path, source: Source) -> None:
    """FW-12."""
    for name in ("b.txt", "c.txt", "d.txt", "e.txt"):
        (inbox / name).write_text("before")
    with listening(source) as desk:
        desk.look()
    before = (inbox / "d.txt").stat()

    (inbox / "a.txt").write_text("new")
    (inbox / "b.txt").write_text("changed")
    (inbox / "c.txt").unlink()
    replace(inbox / "d.txt", "behind")  # as long as before, and as old
    os.utime(inbox / "d.txt", ns=(before.st_atime_ns, before.st_mtime_ns))
    os.utime(inbox / "e.txt")  # touched only

    expected = {("created", "a.txt"), ("modified", "b.txt"), ("deleted", "c.txt"), ("modified", "d.txt")}
    with listening(source) as desk:
        assert set(desk.look()) == expected
    with listening(source) as desk:
        assert len(desk.look()) == len(expected), "the second start tells nothing"


def test_a_change_is_a_changed_content(inbox: Path, source: Source) -> None:
    with listening(source) as desk:
        desk.look()
        (inbox / "a.txt").write_text("one")
        desk.look()
        os.utime(inbox / "a.txt")
        replace(inbox / "a.txt", "one")
        assert desk.look() == [("created", "a.txt")]
        (inbox / "a.txt").write_text("two")
        assert desk.look() == [("created", "a.txt"), ("modified", "a.txt")]


def test_a_file_that_grows_is_told_when_it_has_settled(inbox: Path, source: Source) -> None:
    with listening(source) as desk:
        desk.look()
        desk.listener.watch = desk.listener.watch.model_copy(update={"settle_seconds": 50})
        with open(inbox / "big.csv", "w") as file:
            for _ in range(4):
                file.write("row\n")
                file.flush()
                desk.now += 20
                desk.listener.safely_at(desk.now)
                assert told("inbox") == []
        assert desk.look() == [("created", "big.csv")]
    assert Event.objects.get().data["size"] == 16


def test_a_rename_is_one_move_and_without_moves_a_going_and_a_coming(inbox: Path, source: Source) -> None:
    second = file_source("plain", inbox, mode="polling", on=["created", "deleted"])
    with listening(source) as desk, listening(second) as other:
        (inbox / "a.txt").write_text("same")
        desk.look(), other.look()
        (inbox / "a.txt").rename(inbox / "b.txt")
        assert desk.look() == [("moved", "b.txt")]
        assert set(other.look()) == {("created", "b.txt"), ("deleted", "a.txt")}
    assert Event.objects.get(type="inbox.moved").data["from"] == str(inbox / "a.txt")


def test_a_change_is_told_while_a_large_tree_is_still_looked_at(
    inbox: Path, source: Source, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(20):
        (inbox / f"{number}.txt").write_text(str(number))
    with listening(file_source("native", inbox)) as desk:
        desk.look()
        monkeypatch.setattr(file, "SLICE", 1)
        desk.listener.next_look = 0.0
        desk.turn()
        with monkeypatch.context() as endless:
            endless.setattr(file.Sweep, "go_on", lambda sweep: True)
            (inbox / "new.txt").write_text("new")
            assert desk.hear(lambda: told("native")) == [("created", "new.txt")]
        assert desk.listener.sweep is not None
        until(lambda: desk.turn() or desk.listener.sweep is None)
        assert desk.hear(lambda: True) == [("created", "new.txt")], "nor again at the end of it"


def test_what_is_found_slice_by_slice_is_compared_as_one(
    inbox: Path, source: Source, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(file, "SLICE", 1)
    for number in range(8):
        (inbox / f"{number}.txt").write_text(str(number))
    with listening(source) as desk:
        for _ in range(10):
            desk.look()
        (inbox / "sub").mkdir()
        (inbox / "3.txt").rename(inbox / "sub" / "moved.txt")
        (inbox / "4.txt").unlink()
        for _ in range(10):
            desk.look()
        assert sorted(told("inbox")) == [("deleted", "4.txt"), ("moved", "sub/moved.txt")]


def test_what_is_moved_in_comes_and_what_is_moved_out_goes(inbox: Path, source: Source, tmp_path: Path) -> None:
    """FW-02, FW-07: also a whole folder, and between two watched ones."""
    other = tmp_path / "other"
    (other / "d" / "e").mkdir(parents=True)
    for name in ("t", "d/1", "d/e/2"):
        (other / name).write_text(name)
    second = file_source("other", other, mode="polling", recursive=True)
    with listening(source) as desk, listening(second) as there:
        desk.look(), there.look()
        (other / "t").rename(inbox / "a.txt")
        (other / "d").rename(inbox / "d")
        assert set(desk.look()) == {("created", "a.txt"), ("created", "d/1"), ("created", "d/e/2")}
        assert set(there.look()) == {("deleted", "t"), ("deleted", "d/1"), ("deleted", "d/e/2")}
        (inbox / "d").rename(other / "d")
        assert set(desk.look()[3:]) == {("deleted", "d/1"), ("deleted", "d/e/2")}


def test_only_the_wanted_names_are_told(inbox: Path) -> None:
    csv = file_source("csv", inbox, mode="polling", pattern="*.csv")
    deep = file_source("deep", inbox, mode="polling", recursive=True, pattern="reports/*")
    with listening(csv) as first, listening(deep) as second:
        first.look(), second.look()
        (inbox / "reports").mkdir()
        for name in ("a.csv", "a.txt", ".hidden.csv", "a.csv~", ".a.csv.swp", "b.csv.part", "reports/c.csv", "A.CSV"):
            (inbox / name).write_text(name)
        assert first.look() == [("created", "a.csv")]
        assert second.look() == [("created", "reports/c.csv")]


def test_two_listeners_of_one_source_tell_each_change_once(inbox: Path, source: Source) -> None:
    with listening(source) as one, listening(source) as two:
        one.look(), two.look()
        for number in range(12):
            (inbox / f"{number}.txt").write_text("first")
        for desk in (one, two):
            desk.look()
        (inbox / "0.txt").write_text("second")
        (inbox / "1.txt").unlink()
        (inbox / "2.txt").rename(inbox / "moved.txt")
        for desk in (two, one, two):
            desk.look()
        (inbox / "1.txt").write_text("first")  # as it was before it went
        for desk in (one, two, one):
            desk.look()
    changed = [("modified", "0.txt"), ("deleted", "1.txt"), ("moved", "moved.txt"), ("created", "1.txt")]
    assert sorted(told("inbox")) == sorted([("created", f"{number}.txt") for number in range(12)] + changed)


class CutShort(BaseException):
    """The process is killed here."""


@pytest.fixture(params=["before it is told", "after it is told"])
def cut_short(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Callable[[Listening], None]:
    """`cut_short(desk)`: it looks, writes down what changed, and is killed there."""

    def killed(given: Any) -> Any:
        if request.param == "after it is told":
            ingest(given)
        raise CutShort

    def look(desk: Listening) -> None:
        with monkeypatch.context() as broken:
            broken.setattr(snapshot, "ingest", killed)
            with pytest.raises(CutShort):
                desk.look()

    return look


def test_a_listener_killed_around_telling_loses_and_doubles_nothing(
    inbox: Path, source: Source, cut_short: Callable[[Listening], None]
) -> None:
    with listening(source) as desk:
        (inbox / "b.txt").write_text("b")
        desk.look()
        (inbox / "a.txt").write_text("one")
        (inbox / "b.txt").unlink()
        cut_short(desk)
    (inbox / "a.txt").unlink()  # before anybody is back
    with listening(source) as desk:
        desk.look()
    with listening(source) as desk:
        found = desk.look()
    assert sorted(found) == [("created", "a.txt"), ("deleted", "a.txt"), ("deleted", "b.txt")]
    assert found.index(("created", "a.txt")) < found.index(("deleted", "a.txt"))
    assert not WatchedFile.objects.untold().exists()


def test_a_change_after_such_a_death_is_told_as_well(
    inbox: Path, source: Source, cut_short: Callable[[Listening], None]
) -> None:
    """The key of the first telling is taken; what came after it is no repeat of it."""
    with listening(source) as desk:
        desk.look()
        (inbox / "a.txt").write_text("one")
        cut_short(desk)
    (inbox / "a.txt").write_text("two")
    with listening(source) as desk:
        desk.look()
        assert desk.look() == [("created", "a.txt"), ("modified", "a.txt")]
    digests = [event.data["sha256"] for event in Event.objects.order_by("pk")]
    assert digests[0] != digests[1]


def test_a_name_that_was_forgotten_is_told_again_though_its_keys_are_held(
    inbox: Path, source: Source, cut_short: Callable[[Listening], None]
) -> None:
    """The window was lowered: what went is forgotten by the new one, the keys stay for the old one."""
    with listening(source) as desk:
        desk.look()
        (inbox / "a.txt").write_text("one")
        desk.look()
        (inbox / "a.txt").unlink()
        assert desk.look() == [("created", "a.txt"), ("deleted", "a.txt")]
    Source.objects.filter(pk=source.pk).update(dedupe_window=60)
    WatchedFile.objects.update(gone_at=clock.now() - timedelta(minutes=2))
    with listening(source) as desk:
        desk.look()
        assert not WatchedFile.objects.exists()
        (inbox / "a.txt").write_text("one")
        cut_short(desk)
    with listening(source) as desk:
        assert desk.look()[2:] == [("created", "a.txt")]
        assert len(desk.look()) == 3


def test_a_move_that_was_cut_short_is_told_as_a_move(
    inbox: Path, source: Source, cut_short: Callable[[Listening], None]
) -> None:
    with listening(source) as desk:
        (inbox / "a.txt").write_text("one")
        desk.look()
        (inbox / "a.txt").rename(inbox / "b.txt")
        cut_short(desk)
    with listening(source) as desk:
        assert desk.look() == [("moved", "b.txt")]
    assert Event.objects.get().data["from"] == str(inbox / "a.txt")


def test_a_missing_root_is_said_and_its_return_is_noticed(inbox: Path, source: Source) -> None:
    """FW-05: nothing is called deleted for as long as the folder itself is gone."""
    with listening(source) as desk:
        (inbox / "kept.txt").write_text("kept")
        (inbox / "lost.txt").write_text("lost")
        desk.look()
        inbox.rename(inbox.with_name("away"))
        assert desk.look() == []
        assert (Watch.objects.get().status, "is not there" in Watch.objects.get().detail) == ("missing", True)
        inbox.with_name("away").rename(inbox)
        assert desk.look() == []
        shutil.rmtree(inbox)
        assert desk.look() == []
        inbox.mkdir()
        (inbox / "z.txt").write_text("z")
        (inbox / "kept.txt").write_text("kept")
        assert set(desk.look()) == {("created", "z.txt"), ("deleted", "lost.txt")}
        assert Watch.objects.get().status == "watching"


@pytest.fixture
def mounted(tmp_path: Path) -> Iterator[Callable[..., None]]:
    """`mounted(folder)` mounts a fresh file system there; `mounted(folder, again=other)` shows what lies elsewhere."""
    places: list[Path] = []

    def mount(place: Path, *, again: Path | None = None) -> None:
        how = ["--bind", str(again)] if again else ["-t", "tmpfs", "none"]
        if subprocess.run(["mount", *how, str(place)], check=False, capture_output=True).returncode:
            pytest.skip("only root may mount")
        places.append(place)

    yield mount
    for place in reversed(places):
        subprocess.run(["umount", "-l", str(place)], check=False, capture_output=True)


@pytest.mark.parametrize("below", ["", "nas", "deep/nas"])
def test_what_is_unmounted_is_not_deleted(
    inbox: Path, source: Source, mounted: Callable[..., None], tmp_path: Path, below: str
) -> None:
    """FW-05: the folder is there, empty; the same disk comes back under another number."""
    disk, place = tmp_path / "disk", inbox / below
    disk.mkdir()
    place.mkdir(parents=True, exist_ok=True)
    mounted(disk)
    with listening(source) as desk:
        desk.look()
        mounted(place, again=disk)
        for number in range(5):
            (place / f"{number}.txt").write_text("x")
        name = f"{below}/".lstrip("/")
        assert set(desk.look()) == {("created", f"{name}{number}.txt") for number in range(5)}
        subprocess.run(["umount", place], check=True)
        assert len(desk.look()) == len(desk.look()) == 5
        row = Watch.objects.get()
        assert (row.status, f"{place} is not mounted" in row.detail) == ("missing", True)
    with listening(source) as desk:  # another start of the desk
        assert len(desk.look()) == 5
        mounted(place, again=disk)
        (place / "1.txt").unlink()
        assert desk.look()[5:] == [("deleted", f"{name}1.txt")]
        assert Watch.objects.get().status == "watching"
        subprocess.run(["umount", place], check=True)
        desk.look()
        Watch.objects.update(scope="")  # the source was turned off and on
        assert len(desk.look()) == 6
        assert Watch.objects.get().status == "watching"


def test_a_place_that_is_only_named_otherwise_is_not_lost(
    inbox: Path, source: Source, mounted: Callable[..., None]
) -> None:
    """As when a service gets other rules about its folders: the same files lie there without a mount of their own."""
    (inbox / "a.txt").write_text("a")
    (inbox / "b.txt").write_text("b")
    mounted(inbox, again=inbox)
    with listening(source) as desk:
        desk.look()
        subprocess.run(["umount", inbox], check=True)
        (inbox / "b.txt").unlink()
        assert desk.look() == [("deleted", "b.txt")]


def test_a_file_too_large_to_be_read_is_the_same_on_a_disk_of_another_number() -> None:
    before = Look(size=1 << 40, mtime_ns=1, ctime_ns=1, inode="42:7")
    assert before.same_content(Look(size=1 << 40, mtime_ns=1, ctime_ns=2, inode="43:7"))
    assert not before.same_content(Look(size=1 << 40, mtime_ns=1, ctime_ns=2, inode="43:8"))


@pytest.mark.parametrize("mode", ["polling", "auto"])
def test_a_root_that_is_a_link_is_followed_to_where_it_leads_today(inbox: Path, tmp_path: Path, mode: str) -> None:
    """The usual way to put a release in place: a link is made anew beside the old one and renamed over it."""
    for release in ("1", "2"):
        (inbox / release).mkdir()
        (inbox / release / "same.txt").write_text("same")
    (inbox / "1" / "old.txt").write_text("old")
    link = inbox / "current"
    link.symlink_to("1")
    with listening(file_source("release", link, mode=mode)) as desk:
        desk.look()
        (inbox / "new").symlink_to("2")
        (inbox / "new").rename(link)
        (link / "new.txt").write_text("new")
        assert set(desk.look() and desk.look()) == {("created", "new.txt"), ("deleted", "old.txt")}
        (link / "later.txt").write_text("later")
        assert ("created", "later.txt") in desk.look()
        assert Event.objects.last().data["path"] == str(inbox / "2" / "later.txt")


def test_a_file_that_becomes_a_folder_is_watched_as_one(inbox: Path) -> None:
    (inbox / "a").write_text("0")
    with listening(file_source("one", inbox / "a", mode="polling")) as desk:
        desk.look()
        (inbox / "a").unlink()
        (inbox / "a").mkdir()
        desk.look()
        (inbox / "a" / "b.txt").write_text("b")
        assert desk.look()[-1] == ("created", "b.txt")


def test_a_full_queue_holds_what_was_seen_without_looking_anew(
    inbox: Path, source: Source, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither the known files are read from the database again, nor is the tree walked, until there is room."""
    builders.trigger(source="inbox", limits={"queue": {"limit": 1, "when_full": "block"}})
    loads: list[int] = []
    usual = Snapshot.load
    monkeypatch.setattr(Snapshot, "load", lambda self: (loads.append(1), usual(self)))
    with listening(source) as desk:
        desk.look()
        (inbox / "0.txt").write_text("0")
        desk.look()
        for number in range(1, 250):
            (inbox / f"{number}.txt").write_text(str(number))
        desk.look()
        monkeypatch.setattr(desk.listener, "walked", lambda: pytest.fail("it was walked"))
        for _ in range(3):
            desk.look()
        assert (loads, Watch.objects.get().status, len(told("inbox"))) == ([1], "held", 1)
        monkeypatch.undo()
        Trigger.objects.update(limits={})
        ConfigVersion.bump()
        (inbox / "0.txt").unlink()
        desk.look()
        changes = desk.look()
        assert sorted(changes) == sorted([("deleted", "0.txt"), *(("created", f"{n}.txt") for n in range(250))])
        assert (Watch.objects.get().status, Watch.objects.get().recovered) == ("watching", 0)


def test_a_single_file_is_watched_through_its_folder(inbox: Path) -> None:
    """FW-01: an editor replaces the file; the watch stays."""
    (inbox / "a.txt").write_text("0")
    with listening(file_source("one", inbox / "a.txt", mode="polling")) as desk:
        desk.look()
        for number in range(1, 4):
            replace(inbox / "a.txt", str(number))
            assert len(desk.look()) == number
        (inbox / "b.txt").write_text("not this one")
        (inbox / "a.txt").unlink()
        desk.look()
    assert told("one") == [("modified", "a.txt")] * 3 + [("deleted", "a.txt")]
    (inbox / "a.txt").write_text("again")
    with listening(Source.objects.get(slug="one")) as desk:
        assert desk.look()[4:] == [("created", "a.txt")]


def test_names_of_any_bytes_become_events(inbox: Path, source: Source) -> None:
    """FW-10."""
    names = [b"\xff\xfe.txt", b"line\nbreak.txt", b"<img src=x onerror=alert(1)>.txt", "🎉".encode() * 60]
    names += ["café.txt".encode(), "cafe\u0301.txt".encode()]  # one letter and two
    with listening(source) as desk:
        desk.look()
        for name in names:
            with open(os.path.join(os.fsencode(inbox), name), "w") as file:
                file.write("x")
        assert len(desk.look()) == len(names)
    odd = Event.objects.get(subject=r"\xff\xfe.txt").data
    assert odd["path"] == rf"{inbox}/\xff\xfe.txt"
    assert odd["path_base64"]


def test_links_pipes_and_devices_are_never_opened(inbox: Path, source: Source, tmp_path: Path) -> None:
    """FW-13."""
    secret = tmp_path / "secret.txt"
    secret.write_text("secret")
    with listening(source) as desk:
        desk.look()
        (inbox / "link.txt").symlink_to(secret)
        (inbox / "loop").symlink_to(inbox)
        (inbox / "dangling").symlink_to(inbox / "nothing")
        os.mkfifo(inbox / "pipe")
        (inbox / "real.txt").write_text("real")
        assert desk.look() == [("created", "real.txt")]
    with listening(source) as desk:
        desk.look()
        assert "4 skipped, as a link, pipe or device is never opened" in Watch.objects.get().detail


def test_a_file_of_the_far_future_is_told_and_stops_no_other(inbox: Path, source: Source) -> None:
    with listening(source) as desk:
        desk.look()
        (inbox / "far.txt").write_text("far")
        os.utime(inbox / "far.txt", (10_413_792_000, 10_413_792_000))  # the year 2300
        desk.look()
        (inbox / "near.txt").write_text("near")
        assert set(desk.look()) == {("created", "far.txt"), ("created", "near.txt")}
        assert Watch.objects.get().status == "watching"
    assert Event.objects.get(subject="far.txt").data["mtime"] is None, "no wrong one is told"


@pytest.mark.parametrize("fault", [OverflowError("too large"), RuntimeError("no thread"), ValueError(), DataError()])
def test_what_nobody_foresaw_is_said_and_tried_again(
    inbox: Path, source: Source, monkeypatch: pytest.MonkeyPatch, fault: Exception
) -> None:
    def broken(*given: Any) -> Any:
        raise fault

    with listening(source) as desk:
        desk.look()
        (inbox / "a.txt").write_text("a")
        with monkeypatch.context() as patched:
            patched.setattr(snapshot, "ingest", broken)
            assert desk.look() == []
        row = Watch.objects.get()
        assert (row.status, type(fault).__name__ in row.detail) == ("failed", True)
        assert desk.look() == [("created", "a.txt")]
        assert Watch.objects.get().status == "watching"


def test_a_folder_whose_name_is_no_text_is_said_to_be_missing(inbox: Path) -> None:
    odd = os.fsencode(inbox) + b"/\xff"
    (inbox / "link").symlink_to(os.fsdecode(odd))
    with listening(file_source("odd", inbox / "link", mode="polling")) as desk:
        desk.look()
    assert (Watch.objects.get().status, r"\xff is not there" in Watch.objects.get().detail) == ("missing", True)


def test_a_folder_that_becomes_a_link_is_gone_with_its_files(inbox: Path, source: Source, tmp_path: Path) -> None:
    """Of what lies behind the link neither size nor time nor content is told."""
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "a.txt").write_text("secret")
    (inbox / "sub").mkdir()
    (inbox / "sub" / "a.txt").write_text("ours")
    with listening(source) as desk:
        desk.look()
        shutil.rmtree(inbox / "sub")
        (inbox / "sub").symlink_to(outside)
        assert desk.look() == [("deleted", "sub/a.txt")]
        (outside / "a.txt").write_text("another secret")
        assert len(desk.look()) == 1


def test_a_root_that_leads_elsewhere_today_is_not_followed(inbox: Path, tmp_path: Path, settings: LazySettings) -> None:
    settings.FILE_ROOTS = [str(inbox)]
    folder = inbox / "sub"
    folder.mkdir()
    (tmp_path / "outside").mkdir()
    source = file_source("sub", folder, mode="polling")
    with listening(source) as desk:
        desk.look()
        folder.rmdir()
        folder.symlink_to(tmp_path / "outside")
        (tmp_path / "outside" / "a.txt").write_text("a")
        assert desk.look() == []
        assert Watch.objects.get().status == "failed"
        assert "outside FILE_ROOTS" in Watch.objects.get().detail


def test_another_pattern_begins_silently(inbox: Path, source: Source) -> None:
    (inbox / "a.csv").write_text("a")
    (inbox / "b.txt").write_text("b")
    wide = source.config
    Source.objects.filter(pk=source.pk).update(config=wide | {"pattern": "*.csv"})
    with listening(source) as desk:
        desk.look()
    Source.objects.filter(pk=source.pk).update(config=wide)
    with listening(source) as desk:
        desk.look()
        (inbox / "c.txt").write_text("c")
        assert desk.look() == [("created", "c.txt")]


def test_too_many_files_are_not_polled(inbox: Path, source: Source, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("triggers.listeners.file.MOST_POLLED", 3)
    for number in range(4):
        (inbox / f"{number}.txt").write_text("x")
    with listening(source) as desk:
        desk.look()
    assert (Watch.objects.get().status, "too many" in Watch.objects.get().detail) == ("failed", True)


# By hints, as the file system gives them


@pytest.fixture
def native(inbox: Path) -> Iterator[Any]:
    with listening(file_source("inbox", inbox, mode="native", recursive=True)) as desk:
        desk.hear(lambda: Watch.objects.filter(status="watching", mode="native").exists(), quiet=0)
        yield desk


def test_each_save_of_an_editor_is_heard_once(inbox: Path, native: Any) -> None:
    """FW-01, FW-02, FW-07."""
    path = inbox / "a.txt"
    for number in range(3):
        replace(path, str(number))
        assert len(native.hear(lambda number=number: len(told("inbox")) > number)) == number + 1
    path.rename(inbox / "a.txt~")  # as vim does
    path.write_text("by vim")
    (inbox / "a.txt~").unlink()
    assert native.hear(lambda: len(told("inbox")) > 3) == [("created", "a.txt")] + [("modified", "a.txt")] * 3
    folder = inbox.with_name("d")
    folder.mkdir()
    (folder / "1").write_text("1")
    folder.rename(inbox / "d")
    assert native.hear(lambda: len(told("inbox")) > 4)[4:] == [("created", "d/1")]
    (inbox / "d" / "2").write_text("2")
    assert native.hear(lambda: len(told("inbox")) > 5)[5:] == [("created", "d/2")]
    assert Watch.objects.get().recovered == 0


def test_the_time_to_settle_begins_with_the_change_and_ends_with_a_turn_of_its_own(inbox: Path, native: Any) -> None:
    one = native.listener
    (inbox / "a.txt").write_text("a")
    until(lambda: b"a.txt" in one.hints.names)
    began = time.monotonic()
    one.hear()
    assert one.pending[b"a.txt"].since < began
    assert one.pause() <= one.watch.settle_seconds
    one.pending.clear()
    assert one.pause() == one.rest


def test_lost_hints_are_made_up_for_by_one_look(inbox: Path, native: Any) -> None:
    """FW-04: the kernel's queue ran over; its hints are gone, the files are not."""
    (inbox / "heard.txt").write_text("x")
    native.hear(lambda: told("inbox"))
    native.listener.hints.observer.unschedule_all()
    for number in range(MANY):
        (inbox / f"{number}.txt").write_text("x")
    native.listener.hints.observer.schedule(native.listener.hints, str(inbox), recursive=True)
    logging.getLogger("watchdog.observers.inotify_c").warning("Inotify queue overflowed; filesystem events were lost")
    assert len(native.hear(lambda: Event.objects.count() > MANY)) == MANY + 1
    assert Watch.objects.get().recovered == MANY


def test_a_dead_thread_of_the_hints_is_replaced(inbox: Path, native: Any) -> None:
    """FW-05: the observer says that it lives; its emitter does not."""
    before = native.listener.hints
    for emitter in before.observer.emitters:
        emitter.stop()
        emitter.join(5)
    assert before.observer.is_alive()
    native.hear(lambda: native.listener.hints is not before, quiet=0)
    (inbox / "z.txt").write_text("z")
    assert native.hear(lambda: told("inbox")) == [("created", "z.txt")]


def test_a_folder_made_anew_is_heard_again(inbox: Path, native: Any) -> None:
    """FW-05."""
    shutil.rmtree(inbox)
    native.hear(lambda: Watch.objects.get().status == "missing", quiet=0)
    inbox.mkdir()
    (inbox / "z").write_text("z")
    assert native.hear(lambda: told("inbox")) == [("created", "z")]
    assert Watch.objects.get().mode == "native"


@pytest.mark.parametrize(("mode", "status"), [("auto", "watching"), ("native", "failed")])
def test_a_limit_of_the_kernel_is_named_with_what_raises_it(
    inbox: Path, monkeypatch: pytest.MonkeyPatch, mode: str, status: str
) -> None:
    """FW-09: only this source is hurt, and it polls where that is allowed."""

    def full(*given: Any, **named: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("watchdog.observers.inotify.InotifyWatchGroup.__post_init__", full)
    with listening(file_source("inbox", inbox, mode=mode)) as desk:
        desk.look()
        row = Watch.objects.get()
        assert (row.status, "sysctl -w fs.inotify.max_user_watches" in row.detail) == (status, True)
        (inbox / "a.txt").write_text("a")
        assert desk.look() == ([("created", "a.txt")] if mode == "auto" else [])


def test_the_thread_of_a_listener_works_and_ends(inbox: Path) -> None:
    listener = FileListener(file_source("inbox", inbox))
    listener.start()
    try:
        until(lambda: Watch.objects.filter(status="watching").exists())
        (inbox / "a.txt").write_text("a")
        until(lambda: told("inbox") == [("created", "a.txt")])
    finally:
        listener.stop()
        listener.join(10)
    assert not listener.is_alive()
