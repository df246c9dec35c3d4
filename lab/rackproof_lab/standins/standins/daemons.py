"""Stand-ins for the daemons that need no protocol, and for nvidia-modprobe."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from . import truth


def main(program: str, version: str, args: Sequence[str]) -> int:
    if "--version" in args:
        print(_VERSION_TEXT.get(program, "{}").format(version))
        return 0
    if "--help" in args or "-h" in args:
        print(f"{program} (rackproof lab stand-in), version {version}")
        return 0
    return {"nvidia-persistenced": _persistenced, "nv-fabricmanager": _fabricmanager, "nv-hostengine": _hostengine,
            "nvidia-modprobe": _modprobe}[program](version, args)  # fmt: skip


_VERSION_TEXT = {
    "nv-fabricmanager": "Fabric Manager version is : {}",
    "nvidia-persistenced": "nvidia-persistenced:  version {}",
    "nvidia-modprobe": "nvidia-modprobe:  version {}",
    "nv-hostengine": "Version : {}",
}


def _fork(pid_file: Path, mode: str = "") -> int:
    """Become a daemon that sleeps; the parent returns when the pid file is there."""
    pid_file.parent.mkdir(parents=True, exist_ok=True)
    child = os.fork()
    if child:
        if mode:
            (pid_file.parent / "lab-mode").write_text(f"{mode} {child}\n")
        pid_file.write_text(f"{child}\n")
        return 0
    os.setsid()
    signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
    while True:
        time.sleep(3600)


def _persistenced(version: str, args: Sequence[str]) -> int:
    """Persistence is on unless told --no-persistence-mode, as Ubuntu's unit does."""
    if truth.loaded_driver() is None:
        print("nvidia-persistenced failed to initialize. Check syslog for more details.", file=sys.stderr)
        return 1
    mode = "off" if "--no-persistence-mode" in args else "on"
    return _fork(Path("/run/nvidia-persistenced/nvidia-persistenced.pid"), mode)


def _fabricmanager(version: str, args: Sequence[str]) -> int:
    """Runs where NVSwitches hang on the host; on an NVL72 tray there is nothing to manage."""
    loaded = truth.loaded_driver()
    if loaded and loaded[0] != version:
        print(
            f"fabric manager NVIDIA GPU driver interface version {version} don't match with driver version "
            f"{loaded[0]}. Please update with matching NVIDIA driver package.",
            file=sys.stderr,
        )
        return 1
    if loaded is None or truth.node()["fabric"]["kind"] != "fabricmanager":
        print("request to query NVSwitch device information from NVSwitch driver failed with error:WARNING "
              "Nothing to do [NV_WARN_NOTHING_TO_DO]", file=sys.stderr)  # fmt: skip
        return 1
    (truth.RW / "fabric-completed").touch()
    print("Successfully configured all the available GPUs and NVSwitches to route NVLink traffic. (rackproof lab)")
    return _fork(Path("/run/nvidia-fabricmanager/nv-fabricmanager.pid"))


def _hostengine(version: str, args: Sequence[str]) -> int:
    if "-n" in args:
        signal.pause()
    return _fork(Path("/run/nv-hostengine.pid"))


def _modprobe(version: str, args: Sequence[str]) -> int:
    """`nvidia-modprobe -s -i 0:1` makes IMEX channel 0; loading a module is the boot's business here."""
    if truth.loaded_driver() is None:
        return 1
    if "-i" in args:
        channel = Path("/dev/nvidia-caps-imex-channels/channel0")
        if not channel.exists():
            channel.parent.mkdir(exist_ok=True)
            os.mknod(channel, 0o020666, os.makedev(truth.node()["imex_major"], 0))
            channel.chmod(0o666)
    return 0
