"""The file system of a path is the one that is mounted nearest above it, and a network is known by its name."""

from pathlib import Path

import pytest

from project.lib import mounts

TOLD = rb"""/dev/sda1 / ext4 rw 0 0
host:/share /srv/two\040words nfs4 rw 0 0
old /mnt nfs4 rw 0 0
new /mnt ext4 rw 0 0
"""


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/etc", "ext4"),
        ("/srv/two words/inbox", "nfs4"),
        ("/srv/two words and more", "ext4"),
        ("/mnt/a", "ext4"),
    ],
)
def test_the_nearest_mount_above_counts(monkeypatch, tmp_path, path, kind):
    told = tmp_path / "mounts"
    told.write_bytes(TOLD)
    monkeypatch.setattr(mounts, "MOUNTS", told)
    assert mounts.file_system(Path(path)) == kind


def test_nothing_is_known_where_the_system_does_not_tell(monkeypatch, tmp_path):
    monkeypatch.setattr(mounts, "MOUNTS", tmp_path / "none")
    assert mounts.file_system(tmp_path) == ""


def test_the_file_system_of_a_folder_is_known_here(tmp_path):
    if not mounts.MOUNTS.exists():
        pytest.skip("only Linux tells")
    assert mounts.file_system(Path("/proc/self")) == "proc"
    assert mounts.file_system(tmp_path)


@pytest.mark.parametrize("kind", ["nfs4", "cifs", "smb3", "9p", "fuse.sshfs", "gfs2", "virtiofs"])
def test_what_others_change_over_a_network_is_networked(kind):
    assert mounts.is_networked(kind)


@pytest.mark.parametrize("kind", ["ext4", "tmpfs", "overlay", "fuse.fuse-overlayfs", "fuseblk", ""])
def test_a_disk_of_this_machine_is_not(kind):
    assert not mounts.is_networked(kind)
