"""The examples for collecting with a site's own engine: their shell lines are run, with the real probe.

clush is real and runs over a stand-in for ssh; srun, pdsh and kubectl are stand-ins that do what their manuals say of the
options used. Each "node" is this machine under another name.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from rackproof.evidence.bundle import read_bundle

ROOT = Path(__file__).resolve().parents[3]
EXAMPLES = ROOT / "examples"
NONCE = "asked-by-the-test"
NODES = ["n1", "n2"]

# The probe of this machine as that of another: only the name in its first line is changed.
RENAMED = """sed "s/^\\(#@[^ ]* probe .*\\) node=[^ ]*/\\1 node=$host/" """
STANDINS = {
    # ssh(1) as clush and pdsh call it: options, host, command
    "ssh": f'for word; do host=$last last=$word; done\nsh -c "$last" | {RENAMED}\n',
    # srun(1): %N in file names is the node of the task
    "srun": f"""
for word; do
  case $word in
    --output=*) out=${{word#*=}} ;;
    --error=*) err=${{word#*=}} ;;
    --*) : ;;
    *) break ;;
  esac
  shift
done
for host in {" ".join(NODES)}; do
  "$@" 2> "$(printf %s "$err" | sed "s/%N/$host/")" | {RENAMED} > "$(printf %s "$out" | sed "s/%N/$host/")"
done
""",
    # pdsh(1): the command is run by the remote user's shell
    "pdsh": f"""
for word; do last=$word; done
for host in {" ".join(NODES)}; do
  export host
  PATH="$STATE/remote:$PATH" sh -c "$last"
done
""",
    "kubectl": f"""
printf '%s\\n' "$*" >> "$STATE/calls"
while [ "${{1#--namespace}}" != "$1" ]; do shift 2; done
case "$1 $2" in
  'create configmap') cp "${{4#--from-file=probe.sh=}}" "$STATE/probe.sh"; echo "kind: ConfigMap" ;;
  'apply -f') cat $([ "$3" = - ] || printf %s "$3") > /dev/null ;;
  'set image') echo "kind: DaemonSet" ;;
  'get pods') for host in {" ".join(NODES)}; do echo "pod-$host $host"; done; echo "pod-waiting " ;;
  'rollout status') exit "${{ROLLOUT:-0}}" ;;
  logs\\ *) host=${{2#pod-}}; sh "$STATE/probe.sh" | {RENAMED} ;;
  delete\\ *) : ;;
  *) echo "no such call: $*" >&2; exit 1 ;;
esac
""",
}


@pytest.fixture
def tools(tmp_path: Path) -> dict[str, str]:
    """An environment in which the stand-ins are found first."""
    folder, remote = tmp_path / "bin", tmp_path / "state" / "remote"
    folder.mkdir()
    remote.mkdir(parents=True)
    for name, text in STANDINS.items():
        (folder / name).write_text(f"#!/bin/sh\n{text}")
        (folder / name).chmod(0o755)
    (remote / "hostname").write_text('#!/bin/sh\necho "$host"\n')
    (remote / "sh").write_text(f'#!/bin/sh\n/bin/sh "$@" | {RENAMED}\n')
    (folder / "rackproof").write_text(f'#!/bin/sh\nexec {sys.executable} -m rackproof.cli "$@"\n')
    for path in (*remote.iterdir(), folder / "rackproof"):
        path.chmod(0o755)
    search = f"{folder}:{Path(sys.executable).parent}:{os.environ['PATH']}"
    return {**os.environ, "PATH": search, "STATE": str(tmp_path / "state"), "PYTHONPATH": str(ROOT / "src")}


def run(tools: dict[str, str], *command: str, **more: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command, env={**tools, **more}, cwd=tools["STATE"], text=True, capture_output=True, timeout=300, check=False
    )


@pytest.mark.parametrize(
    ("tool", "words", "environment"),
    [
        ("slurm", [], {"SLURM_JOB_NUM_NODES": "2"}),
        ("clush", ["root@n[1-2]"], {}),
        ("pdsh", ["n[1-2]"], {}),
        ("kubernetes", [], {"NAMESPACE": "rackproof", "IMAGE": "registry.example/busybox@sha256:" + "0" * 64}),
    ],
)
def test_each_node_leaves_one_whole_file(
    tools: dict[str, str], tool: str, words: list[str], environment: dict[str, str]
) -> None:
    done = run(tools, str(EXAMPLES / tool / "collect.sh"), "evidence", NONCE, *words, **environment)
    assert done.returncode == 0, done.stderr
    found = read_bundle(Path(tools["STATE"]) / "evidence")
    assert [(item.node, item.problem, item.nonce) for item in found] == [(node, None, NONCE) for node in NODES]
    judged = run(tools, "rackproof", "judge", "evidence", "--nonce", NONCE, "--json", "-")
    document = json.loads(judged.stdout)
    assert judged.returncode == 2 and all(node["evidence_sha256"] for node in document["nodes"])
    again = run(tools, str(EXAMPLES / tool / "collect.sh"), "evidence", NONCE, *words, **environment)
    assert again.returncode != 0, "a folder that is there already is not mixed with new evidence"


def test_kubernetes_leaves_nothing_behind_and_takes_the_image_that_was_named(tools: dict[str, str]) -> None:
    done = run(
        tools,
        str(EXAMPLES / "kubernetes/collect.sh"),
        "evidence",
        NONCE,
        IMAGE="registry.example/x@sha256:1",
        ROLLOUT="1",
    )
    assert done.returncode == 0 and "some pods are not done" in done.stderr
    calls = (Path(tools["STATE"]) / "calls").read_text().splitlines()
    assert calls[-1].startswith("--namespace default delete daemonset/rackproof-probe configmap/rackproof-probe")
    assert any("set image --local" in call and "probe=registry.example/x@sha256:1" in call for call in calls)
    assert any(call.endswith("--timeout=300s") for call in calls)


def strict(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "additionalProperties": False, "properties": properties, "required": list(properties)}


TEXTS = {"type": "array", "items": {"type": "string"}}
LABELS = {"type": "object", "additionalProperties": {"type": "string"}}
# The fields used, as the API reference of apps/v1 and core/v1 has them; a misspelt one fails.
DAEMON_SET = strict(
    apiVersion={"const": "apps/v1"},
    kind={"const": "DaemonSet"},
    metadata=strict(name={"type": "string"}, labels=LABELS),
    spec=strict(
        selector=strict(matchLabels=LABELS),
        updateStrategy=strict(type={"const": "RollingUpdate"}, rollingUpdate=strict(maxUnavailable={"type": "string"})),
        template=strict(
            metadata=strict(labels=LABELS),
            spec=strict(
                nodeSelector=LABELS,
                tolerations={"type": "array", "items": strict(operator={"enum": ["Exists", "Equal"]})},
                hostPID={"const": True},
                terminationGracePeriodSeconds={"type": "integer"},
                automountServiceAccountToken={"const": False},
                containers={
                    "type": "array",
                    "minItems": 1,
                    "items": strict(
                        name={"type": "string"}, image={"type": "string"}, command=TEXTS, args=TEXTS,
                        readinessProbe=strict(exec=strict(command=TEXTS), periodSeconds={"type": "integer"}),
                        resources=strict(requests=LABELS, limits=LABELS),
                        securityContext=strict(privileged={"const": True}),
                        volumeMounts={"type": "array", "items": strict(
                            name={"type": "string"}, mountPath={"type": "string"}, readOnly={"const": True})},
                    ),
                },
                volumes={"type": "array", "items": strict(name={"type": "string"}, configMap=strict(name={"type": "string"}))},
            ),
        ),
    ),
)  # fmt: skip


def daemon_set() -> dict[str, Any]:
    loaded: dict[str, Any] = yaml.safe_load((EXAMPLES / "kubernetes/daemonset.yaml").read_text())
    return loaded


def test_the_daemon_set_is_one() -> None:
    item = daemon_set()
    jsonschema.validate(item, DAEMON_SET)
    pod = item["spec"]["template"]
    assert item["spec"]["selector"]["matchLabels"] == pod["metadata"]["labels"]
    mounted = [mount["name"] for mount in pod["spec"]["containers"][0]["volumeMounts"]]
    assert mounted == [volume["name"] for volume in pod["spec"]["volumes"]]


@pytest.mark.skipif(shutil.which("kubectl") is None, reason="kubectl is not installed")
def test_kubectl_itself_reads_the_daemon_set() -> None:
    path = str(EXAMPLES / "kubernetes/daemonset.yaml")
    command = [
        "kubectl",
        "set",
        "image",
        "--local",
        f"--filename={path}",
        "probe=registry.example/x@sha256:1",
        "--output=yaml",
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    changed = yaml.safe_load(done.stdout)["spec"]["template"]["spec"]["containers"][0]
    assert changed["image"] == "registry.example/x@sha256:1"
    assert changed["args"] == daemon_set()["spec"]["template"]["spec"]["containers"][0]["args"]


def test_the_pod_runs_the_probe_in_the_node_s_namespaces_and_then_waits(tools: dict[str, str], tmp_path: Path) -> None:
    folder = Path(tools["PATH"].split(":")[0])
    (folder / "nsenter").write_text(
        '#!/bin/sh\necho "$*" > "$STATE/entered"\nwhile [ "$1" != -- ]; do shift; done; shift\nexec "$@"\n'
    )
    (folder / "sleep").write_text('#!/bin/sh\nkill "$PPID"\n')
    for name in ("nsenter", "sleep"):
        (folder / name).chmod(0o755)
    (tmp_path / "probe.sh").write_text("echo of the probe; echo wrong >&2\n")
    container = daemon_set()["spec"]["template"]["spec"]["containers"][0]
    script = container["args"][0]
    for path, here in (
        ("/probe/", f"{tmp_path}/"),
        ("/dev/termination-log", f"{tmp_path}/term"),
        ("/tmp/done", f"{tmp_path}/done"),
    ):
        assert path in script
        script = script.replace(path, here)
    done = run(tools, *container["command"], script)
    assert done.stdout == "of the probe\n" and (tmp_path / "term").read_text() == "wrong\n"
    assert (tmp_path / "done").exists()
    entered = (Path(tools["STATE"]) / "entered").read_text()
    assert entered.startswith("--target 1 --mount --uts --ipc --net --pid -- sh -s")
