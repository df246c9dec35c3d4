"""Where a lab keeps its things and how they are called.

Every name on the machine (network namespaces, cgroup, state folder) is derived from the lab's id, so that two
labs never meet and so that `down` needs no record to find what a killed `up` left behind.
"""

from __future__ import annotations

import os
import re
import zlib
from dataclasses import dataclass
from pathlib import Path

DEFAULT_ID = "rp"
_ID = re.compile(r"[a-z0-9][a-z0-9-]{0,15}")


class LabError(Exception):
    """Something a person has to put right; the message says what, in one line."""


def cache_dir() -> Path:
    """Holds what is the same for every lab: the base root file system and the layers on it."""
    return Path(os.environ.get("RACKPROOF_LAB_CACHE", "/var/tmp/rackproof-lab-cache"))


def cgroup_root() -> Path:
    """The cgroup2 tree of this machine; it is a subfolder where cgroups are hybrid."""
    for path in ("/sys/fs/cgroup/unified", "/sys/fs/cgroup"):
        if Path(path, "cgroup.controllers").exists():
            return Path(path)
    raise LabError("no cgroup2 tree on this machine (looked at /sys/fs/cgroup and /sys/fs/cgroup/unified)")


@dataclass(frozen=True)
class Lab:
    """The names of one lab. Holds no state; making one touches nothing."""

    id: str = DEFAULT_ID

    def __post_init__(self) -> None:
        if not _ID.fullmatch(self.id):
            raise LabError(f"lab id {self.id!r}: use up to 16 of a-z, 0-9 and '-'")

    @property
    def dir(self) -> Path:
        root = Path(os.environ.get("RACKPROOF_LAB_DIR", "/var/tmp/rackproof-lab"))
        return root / self.id

    @property
    def lock(self) -> Path:
        return self.dir.parent / f".{self.id}.lock"

    @property
    def description(self) -> Path:
        return self.dir / "lab.json"

    @property
    def netns(self) -> str:
        """The controller's namespace: bridge, web server, registry, and whatever `exec` runs."""
        return f"rplab-{self.id}"

    def node_netns(self, node: str) -> str:
        return f"{self.netns}.{node}"

    @property
    def cgroup(self) -> Path:
        return cgroup_root() / f"rackproof-lab-{self.id}"

    @property
    def subnet(self) -> str:
        """First three octets. The address lives in the lab's own namespaces only, so a clash would not hurt."""
        number = 88 if self.id == DEFAULT_ID else zlib.crc32(self.id.encode()) % 254 + 1
        return f"10.88.{number}"

    @property
    def gateway(self) -> str:
        return f"{self.subnet}.1"

    @property
    def registry_address(self) -> str:
        """An address of its own, so that the registry can have port 443 and be docker.io to the nodes."""
        return f"{self.subnet}.2"

    def address(self, index: int) -> str:
        """Address of the index-th node, counted from 1."""
        return f"{self.subnet}.{10 + index}"

    def node_dir(self, node: str) -> Path:
        return self.dir / "nodes" / node


def node_name(index: int) -> str:
    return f"tray{index:02d}"


def selected_id(option: str | None = None) -> str:
    """The id to use: the option, else $RACKPROOF_LAB_ID, else the default."""
    return option or os.environ.get("RACKPROOF_LAB_ID") or DEFAULT_ID
