"""What a file source may watch is decided when it is saved; who listens follows the rows."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.conf import LazySettings

from tests.conftest import until
from tests.files import file_source, told
from triggers.configure import change_source, make_source
from triggers.errors import NotValid
from triggers.listeners import keeper
from triggers.listeners.hints import gives_hints
from triggers.models import Source, Watch
from triggers.sources.file import FileWatch, Skipped, is_wanted, look_at, parse_watch, read, refuse_outside, walk
from triggers.sources.unlinked import open_file


@pytest.fixture
def root(tmp_path: Path, settings: LazySettings) -> Path:
    settings.FILE_ROOTS = [str(tmp_path / "root")]
    settings.DATA_DIR = tmp_path / "data"
    for name in ("root/sub", "data/inbox", "data/rung", "rooted"):
        (tmp_path / name).mkdir(parents=True)
    return tmp_path / "root"


@pytest.mark.parametrize("below", ["", "sub", "sub/../sub"])
def test_what_lies_in_a_root_may_be_watched(root: Path, below: str) -> None:
    refuse_outside(str(root / below))


@pytest.mark.parametrize("path", ["/", "/etc/passwd", "{root}/..", "{root}/../rooted", "{root}/out"])
def test_what_lies_outside_may_not(root: Path, path: str) -> None:
    (root / "out").symlink_to("/etc")
    with pytest.raises(NotValid, match="FILE_ROOTS") as refused:
        refuse_outside(path.format(root=root))
    assert refused.value.facts["field"] == "path"


def test_links_in_a_circle_may_not(root: Path) -> None:
    (root / "loop").symlink_to(root / "loop")
    with pytest.raises(NotValid, match="leads nowhere") as refused:
        refuse_outside(str(root / "loop"))
    assert refused.value.facts["field"] == "path"
    with pytest.raises(NotValid):
        refuse_outside(str(root / "a\x00b"))


def test_a_root_in_a_circle_closes_no_other(root: Path, settings: LazySettings) -> None:
    (root.parent / "loop").symlink_to(root.parent / "loop")
    settings.FILE_ROOTS = [str(root.parent / "loop"), str(root)]
    refuse_outside(str(root / "sub"))


@pytest.mark.parametrize("below", ["link/a.txt", "sub/link.txt", "link/../sub/a.txt", "sub/../sub/a.txt"])
def test_no_link_is_followed_by_whatever_looks_or_reads(root: Path, below: str) -> None:
    """A folder may become a link between a check of its path and the opening."""
    (root / "sub" / "a.txt").write_text("a")
    (root / "link").symlink_to(root / "sub")
    (root / "sub" / "link.txt").symlink_to(root / "sub" / "a.txt")
    at = os.fsencode(root)
    there = look_at(at + b"/sub/a.txt")
    assert there is not None
    assert read(at + b"/sub/a.txt", there).sha256
    assert look_at(os.path.join(at, below.encode())) is None
    assert read(os.path.join(at, below.encode()), there) is None
    with pytest.raises(OSError, match=r"directory|leads back up|symbolic links"):
        open_file(os.path.join(at, below.encode()))
    assert [name for name, _ in walk(at, FileWatch(path="/x", recursive=True), Skipped())] == [b"sub/a.txt"]
    with pytest.raises(NotADirectoryError):
        list(walk(at + b"/link", FileWatch(path="/x"), Skipped()))


@pytest.mark.parametrize("path", ["data", "data/rung", "data/inbox", "."])
def test_a_root_around_the_desks_own_data_opens_nothing_of_it(root: Path, settings: LazySettings, path: str) -> None:
    settings.FILE_ROOTS = [str(root.parent)]
    with pytest.raises(NotValid, match="DATA_DIR"):
        refuse_outside(str(root.parent / path))


def test_an_inbox_named_as_a_root_is_open_though_it_lies_in_the_data(root: Path, settings: LazySettings) -> None:
    settings.FILE_ROOTS = [str(root.parent), str(root.parent / "data" / "inbox")]
    refuse_outside(str(root.parent / "data" / "inbox"))
    with pytest.raises(NotValid, match="DATA_DIR"):
        refuse_outside(str(root.parent / "data" / "rung"))
    settings.FILE_ROOTS = [str(root.parent / "data")]
    with pytest.raises(NotValid, match="DATA_DIR"):
        refuse_outside(str(root.parent / "data"))


@pytest.mark.parametrize(
    ("config", "field"),
    [
        ({}, "path"),
        ({"path": "inbox"}, "path"),
        ({"path": "/a\x00b"}, "path"),
        ({"path": "/a", "on": []}, "on"),
        ({"path": "/a", "on": ["closed"]}, "on"),
        ({"path": "/a", "mode": "fast"}, "mode"),
        ({"path": "/a", "settle_seconds": 0}, "settle_seconds"),
        ({"path": "/a", "pattern": ""}, "pattern"),
        ({"path": "/a", "depth": 2}, "depth"),
    ],
)
def test_a_config_that_makes_no_sense_is_refused_at_its_field(config: dict[str, Any], field: str) -> None:
    with pytest.raises(NotValid) as refused:
        parse_watch(config)
    assert refused.value.facts["field"] == field


@pytest.mark.django_db
def test_what_is_not_there_cannot_be_watched(root: Path) -> None:
    for path, said in ((root / "none", "make it first"), (Path("/etc"), "FILE_ROOTS")):
        with pytest.raises(NotValid, match=said):
            make_source(by=None, slug="files", kind="file", config={"path": str(path)})
    source = make_source(by=None, slug="files", kind="file", config={"path": str(root), "on": ["deleted", "created"]})
    assert source.config == {"path": str(root), "on": ["created", "deleted"]}
    assert source.types == ["files.**"]
    with pytest.raises(NotValid):
        change_source(source, by=None, version=1, config={"path": "/etc"})


@pytest.mark.parametrize(
    ("name", "pattern", "wanted"),
    [
        ("a.csv", "*", True),
        ("a.csv", "*.csv", True),
        ("A.CSV", "*.csv", False),
        ("sub/a.csv", "*.csv", True),
        ("sub/a.csv", "sub/*", True),
        ("a.csv", "sub/*", False),
        (".hidden", "*", False),
        (".hidden", ".h*", True),
        (".git/config", "*", False),
        ("a.txt~", "*", False),
        ("#a.txt#", "*", False),
        (".a.txt.swp", "*", False),
        ("4913", "*", False),
        ("49130", "*", True),
        ("~$letter.docx", "*", False),
        ("film.mkv.part", "*", False),
        ("part", "*", True),
        ("film.swf", "*", True),
        ("library.swc", "*", True),
        (".a.swo", ".*", False),
        (".a.swpx", ".*", False),
        (".a.swp", ".*.swp", True),
        ("film.mkv.part", "*.part", True),
        ("sub/film.mkv.part", "sub/*.part", True),
        ("a.tmp", "*.part", False),
        ("a.tmp", "a*.tmp", True),
        ("a~", "*~", True),
        ("4913", "4913", True),
        ("film.mkv.part", "film.*", False),
    ],
)
def test_names_are_wanted_or_not(name: str, pattern: str, wanted: bool) -> None:
    assert is_wanted(name.encode(), FileWatch(path="/x", pattern=pattern, recursive=True)) is wanted


def test_without_below_only_the_folder_itself_counts() -> None:
    assert not is_wanted(b"sub/a.csv", FileWatch(path="/x"))


def test_a_usual_disk_gives_hints() -> None:
    assert gives_hints(os.fsencode(Path(__file__).parent))


@pytest.fixture
def kept() -> Iterator[keeper.Keeper]:
    one = keeper.Keeper()
    yield one
    one.stop()


@pytest.mark.django_db(transaction=True)
def test_the_keeper_follows_the_configuration(root: Path, kept: keeper.Keeper) -> None:
    kept.look()
    assert kept.kept == {}
    source = file_source("files", root)
    kept.look()
    until(lambda: Watch.objects.filter(status="watching").exists())
    (root / "a.txt").write_text("a")
    until(lambda: told("files") == [("created", "a.txt")])

    first = kept.kept[source.pk].listener
    source.change(by=None, config=source.config | {"path": str(root / "sub")})
    kept.look()
    first.join(10)
    assert not first.is_alive()
    until(lambda: "sub" in Watch.objects.get().scope)
    (root / "sub" / "b.txt").write_text("b")
    until(lambda: told("files")[1:] == [("created", "b.txt")])

    Source.objects.get().disable(by=None)
    kept.look()
    assert (kept.kept, Watch.objects.get().is_kept) == ({}, False)
    (root / "sub" / "c.txt").write_text("c")
    Source.objects.get().enable(by=None)
    kept.look()
    until(lambda: Watch.objects.get().is_kept)
    (root / "sub" / "d.txt").write_text("d")
    until(lambda: ("created", "d.txt") in told("files"))
    assert ("created", "c.txt") not in told("files"), "it came while the source was off"


@pytest.mark.django_db(transaction=True)
def test_a_thread_that_dies_is_started_again(root: Path, kept: keeper.Keeper, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keeper, "BACKOFF", (0.01,))
    source = file_source("files", root)
    kept.look()
    dead = kept.kept[source.pk].listener
    dead.stop()
    dead.join(10)
    Watch.objects.update(status="watching")  # as it was last noted
    kept.look()
    assert (Watch.objects.get().status, "died" in Watch.objects.get().detail) == ("failed", True)
    until(lambda: kept.look() or kept.kept[source.pk].listener is not dead)
    until(lambda: Watch.objects.filter(status="watching").exists())
    assert kept.kept[source.pk].deaths == 1
