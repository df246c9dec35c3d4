"""`make demo`: a simulated rack from "as leased" to a proven baseline, and back to it after a fault.

Each step says what it runs and what exit code it expects; a step that does not keep its word ends the demo with that
code. Whatever happens, also on Ctrl-C, the lab is taken down again (KEEP=1 leaves it up).
"""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

BIN = Path(sys.executable).parent
ROOT = Path(__file__).resolve().parent.parent
INVENTORY, DEPLOY = "inventories/lab.py", "deploys/k3.py"
REPORTS, FILES = ROOT / "demo", {"json": "rejected.json", "html": "rejected.html", "letter": "rejected.md"}
FAULTY, FAULT, REQUIREMENT = "tray02", "fabric-incomplete", "nvlink.fabric_state"


class Broken(Exception):
    """A step did not end as it should."""


def main() -> int:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    keep = os.environ.get("KEEP") == "1"
    started = time.monotonic()
    code = 1
    try:
        steps()
        look, send = (f"{REPORTS.name}/{FILES[kind]}" for kind in ("html", "letter"))
        print(f"\nThe rejected rack, to look at: {look}; to send: {send}")
        print(f"Demo complete in {time.monotonic() - started:.0f} s. Simulated: nothing above is a GPU result.")
        code = 0
    except Broken as broken:
        print(f"\ndemo: {broken}", file=sys.stderr)
    except KeyboardInterrupt:
        print("\ndemo: interrupted", file=sys.stderr)
        code = 130
    finally:
        if keep:
            print(f"KEEP=1: the lab stays up. Try: {BIN}/rackproof verify {INVENTORY}; end it with: make lab-down")
        else:
            signal.signal(signal.SIGINT, signal.SIG_IGN)
            run("Taking the lab down", "rackproof-lab down", may_fail=True)
    return code


def steps() -> None:
    """The story, in order."""
    run("Four simulated GB300 trays, as leased: R575, no IMEX, no toolkit", "rackproof-lab up --nodes 4 --state leased")
    run("Is it what the recipe needs?", f"rackproof verify {INVENTORY}", expect=1)
    run("Bring it to the baseline, over SSH", f"pyinfra -y {INVENTORY} {DEPLOY}")
    run("And now?", f"rackproof verify {INVENTORY}")
    run("Deploy again: nothing may change", f"pyinfra -y {INVENTORY} {DEPLOY}")
    nothing_changed()
    run(f"Break something: {FAULT} on {FAULTY}", f"rackproof-lab break {FAULTY} {FAULT}")
    names_the_fault()
    run("Mend it", f"rackproof-lab heal {FAULTY}")
    run("Proven again", f"rackproof verify {INVENTORY}")


def run(title: str, command: str, expect: int = 0, may_fail: bool = False) -> None:
    """Run one command of this environment, showing its output; raises Broken for another exit code than expected."""
    print(f"\n\033[1m▶ {title}\033[0m\n  $ {command}", flush=True)
    began = time.monotonic()
    process = subprocess.run(shlex.split(command), cwd=ROOT, env=environment(), check=False)
    print(f"  ({time.monotonic() - began:.1f} s, exit code {process.returncode})", flush=True)
    if process.returncode != expect and not may_fail:
        raise Broken(f"`{command}` ended with {process.returncode}, expected {expect}")


def nothing_changed() -> None:
    """The second deploy's own account: no operation did anything on any host."""
    command = [str(BIN / "pyinfra"), "-y", "--json", INVENTORY, DEPLOY]
    answer = subprocess.run(command, cwd=ROOT, env=environment(), capture_output=True, text=True, check=False)
    results = json.loads(answer.stdout)["results"]
    done = [item["name"] for item in results["operations"] if item["success"] or item["error"]]
    if answer.returncode != 0 or done or results["failed_hosts"]:
        raise Broken(f"a deploy that should change nothing has operations: {results}")
    print("  nothing was changed on any host, and every one is accepted")


def names_the_fault() -> None:
    """The verdict must reject, and say which tray and which requirement."""
    REPORTS.mkdir(exist_ok=True)
    files = " ".join(f"--{kind} {REPORTS.name}/{name}" for kind, name in FILES.items())
    run("The verdict names the tray and the requirement", f"rackproof verify {INVENTORY} {files}", expect=1)
    document = json.loads((REPORTS / FILES["json"]).read_text())
    red = {(n["node"], o["requirement"]) for n in document["nodes"] for o in n["outcomes"]
           if o["status"] == "fail" and o["severity"] == "gate"}  # fmt: skip
    if (FAULTY, REQUIREMENT) not in red or {node for node, _ in red} != {FAULTY}:
        raise Broken(f"expected {REQUIREMENT} to fail on {FAULTY} and on no other, got {sorted(red)}")


def environment() -> dict[str, str]:
    # pyinfra's log is for people here; its progress spinner only disturbs a captured terminal.
    path = f"{BIN}:{os.environ.get('PATH', '')}"
    return {**os.environ, "PATH": path, "PYINFRA_PROGRESS": "off", "PYTHONWARNINGS": "ignore"}


if __name__ == "__main__":
    sys.exit(main())
