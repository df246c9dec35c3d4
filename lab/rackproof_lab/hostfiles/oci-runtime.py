#!/usr/bin/python3 -IS
"""Lab: the runtime below podman. Leaves out capabilities that this machine's own container does not have and lowers
limits that it cannot give, since no runtime can; all else goes to the real crun, or runc, as podman said it."""

import json
import os
import resource
import sys
from pathlib import Path

REAL = next(path for path in ("/usr/bin/crun", "/usr/sbin/runc", "/usr/bin/runc") if os.access(path, os.X_OK))
BITS = {"CAP_IPC_LOCK": 14, "CAP_SYS_PTRACE": 19, "CAP_SYS_RESOURCE": 24}


def _has(name: str) -> bool:
    status = Path("/proc/self/status").read_text()
    bounding = int(next(line.split()[1] for line in status.splitlines() if line.startswith("CapBnd:")), 16)
    return name not in BITS or bool(bounding >> BITS[name] & 1)


def _lowered(limit: dict[str, object]) -> dict[str, object]:
    most = resource.getrlimit(getattr(resource, str(limit["type"])))[1]
    fits = {key: min(int(str(limit[key])), most) if most >= 0 else limit[key] for key in ("hard", "soft")}
    return {**limit, **fits}


def _fit(path: Path) -> None:
    config = json.loads(path.read_text())
    process = config["process"]
    kept = {kind: [name for name in names if _has(name)] for kind, names in process.get("capabilities", {}).items()}
    process["capabilities"] = kept
    process["rlimits"] = [_lowered(limit) for limit in process.get("rlimits", [])]
    if "pids" not in Path("/sys/fs/cgroup/cgroup.controllers").read_text().split():
        config["linux"].get("resources", {}).pop("pids", None)
    path.write_text(json.dumps(config))


words = sys.argv[1:]
if "create" in words:
    at = next(index for index, word in enumerate(words) if word in ("--bundle", "-b"))
    _fit(Path(words[at + 1]) / "config.json")
os.execv(REAL, [REAL, *words])
