"""Stand-in for nvidia-ctk: --version, cdi generate, cdi list, runtime configure."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Sequence
from pathlib import Path

from . import truth

LIBRARIES = ("libcuda", "libnvidia-ml", "libnvidia-ptxjitcompiler")
COMMITS = {"1.17.8": "1a" * 20, "1.18.2": "2b" * 20, "1.19.1": "3c" * 20}


def main(program: str, version: str, args: Sequence[str]) -> int:
    if "--version" in args or "-v" in args:
        print(f"NVIDIA Container Toolkit CLI version {version}\ncommit: {COMMITS.get(version, '0' * 40)}")
        return 0
    if list(args[:2]) == ["cdi", "generate"]:
        return _generate(args)
    if list(args[:2]) == ["cdi", "list"]:
        return _list()
    if list(args[:2]) == ["runtime", "configure"]:
        return _configure(args)
    print("nvidia-ctk (rackproof lab stand-in): --version, cdi generate|list, runtime configure")
    return 0 if not args or args[0] in ("--help", "-h", "help") else 1


def _option(args: Sequence[str], name: str, default: str = "") -> str:
    for index, word in enumerate(args):
        if word.startswith(f"{name}="):
            return word.partition("=")[2]
        if word == name and index + 1 < len(args) and not args[index + 1].startswith("--"):
            return args[index + 1]
    return default


def _generate(args: Sequence[str]) -> int:
    library, loaded = truth.library_version(), truth.loaded_driver()
    if library is None or loaded is None or loaded[0] != library:
        reason = "Driver Not Loaded" if loaded is None else "Driver/library version mismatch"
        print(
            f'time="now" level=error msg="failed to generate CDI spec: failed to initialize NVML: {reason}"',
            file=sys.stderr,
        )
        return 1
    output = _option(args, "--output", os.environ.get("NVIDIA_CTK_CDI_OUTPUT_FILE_PATH", ""))
    spec = _yaml(_spec(library)) if not output.endswith(".json") else json.dumps(_spec(library), indent=2) + "\n"
    if not output:
        print(spec, end="")
        return 0
    path = Path(output)
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.tmp")
    temporary.write_text(spec)
    temporary.rename(path)
    print('time="now" level=info msg="Generated CDI spec with version 0.5.0 (lab stand-in)"', file=sys.stderr)
    return 0


def _spec(driver: str) -> truth.Json:
    """What the real one writes, cut to the parts that matter: device nodes, libraries by version, one hook."""
    nodes = {gpu["index"]: {"path": f"/dev/nvidia{gpu['index']}"} for gpu in truth.gpus()}
    devices = [{"name": str(i), "containerEdits": {"deviceNodes": [n]}} for i, n in nodes.items()]
    devices += [{"name": gpu["uuid"], "containerEdits": {"deviceNodes": [nodes[gpu["index"]]]}} for gpu in truth.gpus()]
    devices.append({"name": "all", "containerEdits": {"deviceNodes": list(nodes.values())}})
    options = ["ro", "nosuid", "nodev", "rbind", "rprivate"]
    folder = truth.library_folder()
    files = [f"{folder}/{name}.so.{driver}" for name in LIBRARIES]
    mounts = [{"hostPath": f, "containerPath": f, "options": options} for f in [*files, "/usr/bin/nvidia-smi"]]
    hook = {
        "hookName": "createContainer", "path": "/usr/bin/nvidia-cdi-hook",
        "args": ["nvidia-cdi-hook", "update-ldcache", "--folder", folder],
    }  # fmt: skip
    edits = {
        "env": ["NVIDIA_VISIBLE_DEVICES=void"],
        "deviceNodes": [{"path": "/dev/nvidiactl"}, {"path": "/dev/nvidia-uvm"}],
        "hooks": [hook], "mounts": mounts,
    }  # fmt: skip
    return {"cdiVersion": "0.5.0", "kind": "nvidia.com/gpu", "devices": devices, "containerEdits": edits}


def _yaml(value: object, depth: int = 0) -> str:
    """YAML of a spec: block style for maps and lists, strings quoted as JSON where they need it."""
    pad = "  " * depth
    if isinstance(value, dict):
        lines = []
        for key, item in value.items():
            inner = _yaml(item, depth + 1)
            lines.append(
                f"{pad}{key}: {inner.strip()}\n" if not isinstance(item, (dict, list)) else f"{pad}{key}:\n{inner}"
            )
        return "".join(lines)
    if isinstance(value, list):
        out = ""
        for item in value:
            inner = _yaml(item, depth + 1)
            out += f"{pad}- {inner.lstrip()}" if isinstance(item, dict) else f"{pad}- {inner.strip()}\n"
        return out
    return f"{_scalar(str(value))}\n"


def _scalar(text: str) -> str:
    return text if re.fullmatch(r"[A-Za-z/][\w./=-]*", text) else json.dumps(text)


def _list() -> int:
    names: list[str] = []
    for folder in ("/etc/cdi", "/var/run/cdi"):
        for path in sorted(Path(folder).glob("*")) if Path(folder).is_dir() else []:
            if path.suffix in (".yaml", ".json"):
                names += [n for n in re.findall(r'"?name"?: "?([\w-]+)"?', path.read_text()) if n not in names]
    print(f"INFO[0000] Found {len(names)} CDI devices", file=sys.stderr)
    for name in sorted(names):
        print(f"nvidia.com/gpu={name}")
    return 0


def _configure(args: Sequence[str]) -> int:
    runtime = _option(args, "--runtime", "docker")
    if runtime != "docker":
        print(f"nvidia-ctk (rackproof lab stand-in): runtime {runtime} is not simulated", file=sys.stderr)
        return 1
    path = Path(_option(args, "--config", "/etc/docker/daemon.json"))
    config = json.loads(path.read_text()) if path.exists() and path.read_text().strip() else {}
    config.setdefault("runtimes", {})["nvidia"] = {"args": [], "path": "nvidia-container-runtime"}
    if "--set-as-default" in args or "--nvidia-set-as-default" in args:
        config["default-runtime"] = "nvidia"
    if any(a in ("--cdi.enabled", "--cdi.enabled=true") for a in args):
        config.setdefault("features", {})["cdi"] = True
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(config, indent=4))
    print(f'time="now" level=info msg="Wrote updated config to {path}"', file=sys.stderr)
    print('time="now" level=info msg="It is recommended that docker daemon be restarted."', file=sys.stderr)
    return 0
