"""Shell programs of the self-build path and of the way back from it. POSIX sh; every value is quoted before it gets here."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass

from rackproof.managed import HISTORY, SELFBUILD_RECORD, SERVING_ENVIRONMENT, SERVING_UNIT, STAMP

MARK = "/etc/rackproof/selfbuild"
BANNER = "/etc/motd.d/rackproof-selfbuild"  # pam_motd(8) shows what lies there at every login
WORK = "/var/lib/rackproof/selfbuild"
SUPPORT_LABEL = "org.rackproof.support"
NAME = "rackproof/vllm"


@dataclass(frozen=True)
class Build:
    """One self-build: `commit` 40 hex digits, `base` an image by digest, `label` the word that marks it everywhere."""

    commit: str
    base: str
    label: str
    builder: str
    containerfile: str

    @property
    def tag(self) -> str:
        return f"{NAME}:{self.commit[:12]}-selfbuild-unsupported"

    @property
    def title(self) -> str:
        return f"{self.label}: vLLM {self.commit[:12]} on {self.base.rpartition('@')[2][:19]}, built by {self.builder}"

    @property
    def labels(self) -> dict[str, str]:
        return {
            SUPPORT_LABEL: self.label,
            "org.opencontainers.image.revision": self.commit,
            "org.opencontainers.image.base.digest": self.base.rpartition("@")[2],
            "org.opencontainers.image.base.name": self.base,
            "org.rackproof.selfbuild.builder": self.builder,
        }


def mark(build: Build) -> str:
    """Mark the host, before anything is built: a build that is cut off leaves a marked host."""
    banner = (
        f"{build.title}\n"
        "This host is not the official baseline and can never be accepted as one until it is converted (convert: true).\n"
    )
    return f"""\
when=$(date -u +%Y-%m-%dT%H:%M:%SZ)
mkdir -p {" ".join(sorted({path.rpartition("/")[0] for path in (MARK, BANNER, SELFBUILD_RECORD)}))}
printf '%s %s\\n' {shlex.quote(build.title)} "$when" >{MARK}.new && mv -f {MARK}.new {MARK}
printf '%s' {shlex.quote(banner)} >{BANNER}.new && mv -f {BANNER}.new {BANNER}
printf 'built %s %s %s\\n' {build.commit} "$when" {shlex.quote(build.builder)} >>{SELFBUILD_RECORD}
"""


# What the image says of itself is asked of it, since no build argument could know.
_VERSIONS = """\
import importlib.metadata as m, json
import torch
def v(name):
    try: return m.version(name)
    except m.PackageNotFoundError: return "none"
print(json.dumps({"vllm": v("vllm"), "torch": torch.__version__, "cuda": torch.version.cuda,
                  "nccl": ".".join(map(str, torch.cuda.nccl.version())), "flashinfer": v("flashinfer-python"), "deep_gemm": v("deep_gemm")}))
"""


def build(build: Build, archive: str) -> str:
    """Build the image from the source archive on the host, ask it for its versions, label and tag it."""
    labels = " ".join(f"--label {shlex.quote(f'{key}={value}')}" for key, value in build.labels.items())
    version = f"0.0.0+selfbuild.{build.commit[:12]}"
    return f"""\
die() {{ printf 'rackproof: %s\\n' "$*" >&2; exit 1; }}
work={WORK}/context
parts={NAME}:building
rm -rf "$work"; mkdir -p "$work"
trap 'rc=$?; rm -rf "$work" {WORK}/Containerfile; docker rmi "$parts" >/dev/null 2>&1; exit $rc' EXIT
tar -C "$work" -xf {shlex.quote(archive)} || die 'the source archive cannot be unpacked'
printf %s {shlex.quote(build.containerfile)} >{WORK}/Containerfile
docker image inspect {shlex.quote(build.base)} >/dev/null 2>&1 || docker pull -q {shlex.quote(build.base)} ||
  die {shlex.quote(f"the base image {build.base} cannot be pulled")}
echo 'rackproof: building; this takes hours on a host of this size'
docker build -q -f {WORK}/Containerfile --build-arg BASE={shlex.quote(build.base)} --build-arg VERSION={version} \\
  -t "$parts" "$work" >/dev/null || die 'the build failed; what it said stands above'
versions=$(docker run --rm --entrypoint python3 "$parts" -c {shlex.quote(_VERSIONS)} | tail -n 1 | tr -cd ' -~' | cut -c 1-1000) ||
  die 'the image that was built cannot say its versions'
[ -n "$versions" ] || die 'the image that was built says no versions'
printf 'FROM %s\\n' "$parts" | docker build -q {labels} --label "org.opencontainers.image.created=$(date -u +%Y-%m-%dT%H:%M:%SZ)" \\
  --label "org.rackproof.selfbuild.versions=$versions" --label "org.rackproof.selfbuild.architecture=$(uname -m)" \\
  -t {build.tag} - >/dev/null
echo "rackproof: {build.tag}: $versions"
rm -f {shlex.quote(archive)}
"""


def convert(label: str, operator: str) -> str:
    """Take the marks, the unit, its containers and the tags of self-built images away, and record that it was done."""
    filtered = shlex.quote(f"label={SUPPORT_LABEL}={label}")
    return f"""\
if grep -qs {shlex.quote(label)} {SERVING_UNIT}; then
  systemctl disable -q --now rackproof-serving.service || :
  rm -f {SERVING_UNIT} {SERVING_ENVIRONMENT}
  systemctl daemon-reload
fi
for engine in docker podman; do
  command -v $engine >/dev/null || continue
  ids=$($engine ps -aq --filter {filtered})
  [ -z "$ids" ] || $engine rm -f $ids >/dev/null
  ids=$($engine image ls -q --no-trunc --filter {filtered} | sort -u)
  for id in $ids; do $engine rmi -f "$id" >/dev/null; done
done
if [ -f {STAMP} ]; then
  mkdir -p {HISTORY}
  mv -f {STAMP} "{HISTORY}/$(date -u +%Y%m%dT%H%M%SZ)-$(sha256sum <{STAMP} | cut -c 1-12).json"
fi
printf 'converted %s %s\\n' "$(date -u +%Y-%m-%dT%H:%M:%SZ)" {shlex.quote(operator)} >>{SELFBUILD_RECORD}
rm -f {BANNER} {MARK}
rm -rf {WORK}
"""


def labelled(labels: Mapping[str, str], build: Build) -> bool:
    """Whether an image is this very build: its commit, its base, and marked."""
    wanted = {key: value for key, value in build.labels.items() if not key.endswith(".builder")}
    return all(labels.get(key) == value for key, value in wanted.items())
