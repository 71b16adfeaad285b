"""The file systems the files of a source lie on: one that is unmounted takes its files along, and deletes none."""

import os
from collections.abc import Iterable
from pathlib import Path

from project.lib import mounts
from triggers.models import Source, Watch
from triggers.sources.file import text_of


class Ground:
    """Where something is mounted around a root, and below it when that counts, as was last noted in the source's row.

    By place, since the numbers of devices are other ones after each start of the machine."""

    def __init__(self, source: Source, root: bytes, *, below: bool) -> None:
        self.source, self.root, self.below = source, root, below
        self.devices: dict[str, int] = {}  # by place, as noted
        self.noted: dict[str, object] = {}

    def lost(self, present: Iterable[bytes]) -> str:
        """A place that was noted before where nothing is mounted now, and all files known there went; else empty.

        Where one of them still lies the place is only named otherwise, as in a container that was made anew."""
        told = Watch.objects.filter(source=self.source).values_list("mounts", flat=True).first() or {}
        there = {text_of(os.fsencode(place)) for place, _ in mounts.mounts()}
        if told.get("root") != text_of(self.root) or not there:
            return ""
        known = {text_of(path): path for path in (os.path.join(self.root, name) for name in present)}
        for place in told["places"]:
            if place not in there:
                inside = [path for text, path in known.items() if text.startswith(f"{place.rstrip('/')}/")]
                if inside and not any(map(os.path.lexists, inside)):
                    return str(place)
        return ""

    def note(self) -> None:
        """Note what is mounted now; written when it differs."""
        root = Path(os.fsdecode(self.root))
        places = {mounts.around(root)[0]} - {""}
        if self.below:
            places |= {place for place, _ in mounts.mounts() if Path(place).is_relative_to(root)}
        self.devices = {place: device for place in places if (device := device_of(place)) is not None}
        told: dict[str, object] = {
            "root": text_of(self.root),
            "places": sorted(text_of(os.fsencode(place)) for place in self.devices),
        }
        if told != self.noted:
            Watch.objects.update_or_create(source=self.source, defaults={"mounts": told})
            self.noted = told

    def stands(self) -> bool:
        """Whether the same is mounted there still."""
        return all(device_of(place) == device for place, device in self.devices.items())


def device_of(place: str) -> int | None:
    try:
        return os.stat(place).st_dev
    except OSError:
        return None
