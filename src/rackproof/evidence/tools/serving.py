"""Units that serve, their environment, NCCL's own file, preloaded libraries, and what is left in shared memory.

Units are rackproof-*.service as `rackproof launch` renders them. Formats: systemd.unit(5), systemd.exec(5)
(EnvironmentFile=), NCCL's env.html (/etc/nccl.conf: NAME=value, # comments), ld.so(8).
"""

from __future__ import annotations

import itertools
import re
import shlex
from collections.abc import Mapping

from rackproof.evidence.evidence import Evidence
from rackproof.evidence.sections import Command, Root
from rackproof.evidence.tools.group import Group, read_group, script
from rackproof.evidence.tools.values import one_line, output
from rackproof.facts import Fact, Missing
from rackproof.facts_serving import DockerRun, ServingFacts, ServingUnitFile

UNITS = "/etc/systemd/system"
WANTS = f"{UNITS}/multi-user.target.wants"
ENV = "/etc/rackproof/serving.env"
NCCL = "/etc/nccl.conf"
PRELOAD = "/etc/ld.so.preload"
SHM = "/dev/shm"
SEGMENTS = ("nccl-", "psm_", "sem.mp-")  # NCCL's, and those of Python's shared_memory and multiprocessing
MASK = "***"
ENGINES = ("docker", "podman")  # their options are the same words

# Applied in turn: a whole word in quotes, a value in quotes or bare, options of the engine.
_NAMED = "[A-Za-z0-9_]*(TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIAL|API_KEY)[A-Za-z0-9_]*="
_VALUE = r"""("[^"]*"|'[^']*'|[^[:space:]"']+)"""
_MASKS = (
    rf's/"({_NAMED})[^"]*/"\1{MASK}/g',
    rf"s/'({_NAMED})[^']*/'\1{MASK}/g",
    rf"s/({_NAMED}){_VALUE}/\1{MASK}/g",
    rf"s/(--[a-z-]*(token|api-key|password)[ =]){_VALUE}/\1{MASK}/g",
)
_SED = " ".join(f"-e {shlex.quote(mask)}" for mask in _MASKS)

_SCRIPT = rf"""
for f in {UNITS}/rackproof-*.service {ENV}; do
  if [ -f "$f" ] && [ -r "$f" ]; then
    printf '= %s\n' "$f"; sed -E {_SED} "$f" | sed 's/^/|/'
  elif [ -e "$f" ]; then printf '! %s\n' "$f"
  else gone "$f"; fi
done
mark {WANTS}/rackproof-*.service
show {NCCL} {PRELOAD}
if [ -r {SHM} ] && [ -x {SHM} ]; then
  printf '= segments\n'
  for p in {" ".join(SEGMENTS)}; do
    n=0
    for f in {SHM}/"$p"*; do [ ! -e "$f" ] || n=$((n + 1)); done
    printf '|%s %s\n' "$p" "$n"
  done
else gone {SHM}/x; fi
"""

COMMANDS = (
    Command("serving", script(_SCRIPT), root=Root.HELPS),
    Command(
        "virtualization", "systemd-detect-virt --vm || :; echo .", requires="systemd-detect-virt"
    ),  # fails for "none"
)

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_BARE = frozenset({"--rm", "--privileged", "--init", "--detach", "-d", "-i", "-t", "-it", "--interactive", "--tty"})


def serving(evidence: Evidence) -> Fact[ServingFacts]:
    group = read_group(evidence, "serving", "what serves")
    if isinstance(group, Missing):
        return group
    units, env = _units(group), _variables(group, ENV)
    return ServingFacts(
        units=units,
        env_file=env,
        secrets=_secrets(units, env),
        nccl_conf=_variables(group, NCCL),
        preload=_preload(group),
        segments=_segments(group),
    )


def virtual_machine(evidence: Evidence) -> Fact[str]:
    """The hypervisor as systemd names it (kvm, microsoft, amazon ...), "none" on bare metal; containers do not count."""
    text = output(evidence, "virtualization", "systemd-detect-virt")
    if isinstance(text, Missing):
        return text
    match = re.fullmatch(r"([a-z][a-z0-9-]{1,30})\n[.]\n", text)
    return match[1] if match else Missing(f"systemd-detect-virt: {one_line(text)}")


def _units(group: Group) -> Fact[tuple[ServingUnitFile, ...]]:
    hidden = group.entries.get(f"{UNITS}/rackproof-*.service")
    if isinstance(hidden, Missing):
        return hidden
    found = []
    for path, text in group.entries.items():
        name = path.removeprefix(f"{UNITS}/")
        if "/" in name or "*" in name or text is None or not name.endswith(".service"):
            continue
        run = text if isinstance(text, Missing) else parse_unit(text)
        found.append(ServingUnitFile(name, _enabled(group, name), run))
    return tuple(found)


def _enabled(group: Group, name: str) -> Fact[bool]:
    hidden = group.entries.get(f"{WANTS}/rackproof-*.service")
    return hidden if isinstance(hidden, Missing) else f"{WANTS}/{name}" in group.marked


def parse_unit(text: str) -> Fact[DockerRun]:
    """The container that a unit's ExecStart runs."""
    lines = re.sub(r"\\\n\s*", " ", text.replace("\r\n", "\n")).split("\n")
    starts = [line.removeprefix("ExecStart=") for line in lines if line.startswith("ExecStart=")]
    if len(starts) != 1:
        return Missing(f"the unit has {len(starts)} lines ExecStart=")
    try:
        words = [word.replace("%%", "%").replace("$$", "$") for word in shlex.split(starts[0])]
    except ValueError as error:
        return Missing(f"ExecStart= cannot be read: {error}")
    if words[1:2] != ["run"] or not words[0].endswith(ENGINES):
        return Missing(f"the unit does not start docker run or podman run: {one_line(starts[0])}")
    return _docker_run(words[2:])


def _docker_run(words: list[str]) -> Fact[DockerRun]:
    options: dict[str, tuple[str, ...]] = {}
    env: dict[str, str] = {}
    rest = list(words)
    while rest and rest[0].startswith("-"):
        name, equals, value = rest.pop(0).partition("=")
        if not equals and name not in _BARE:
            value = rest.pop(0) if rest else ""
        if name in ("--env", "-e"):
            variable, _, content = value.partition("=")
            env[variable] = content
        else:
            options[name] = (*options.get(name, ()), *((value,) if value else ()))
    return DockerRun(rest[0], options, env, tuple(rest[1:])) if rest else Missing("the unit names no image")


def _variables(group: Group, path: str) -> Fact[Mapping[str, str] | None]:
    """NAME=value lines; one that is none makes the whole file unreadable to us."""
    text = group.text(path)
    if not isinstance(text, str):
        return text
    found: dict[str, str] = {}
    for line in text.splitlines():
        name, equals, value = line.strip().partition("=")
        if not line.strip() or name.startswith(("#", ";")):
            continue
        if not equals or not _NAME.fullmatch(name.strip()):
            return Missing(f"{path} holds: {one_line(line)}")
        found[name.strip()] = value.strip().strip("\"'")
    return found


def _secrets(units: Fact[tuple[ServingUnitFile, ...]], env: Fact[Mapping[str, str] | None]) -> Fact[tuple[str, ...]]:
    """Names whose value the node kept back."""
    if isinstance(units, Missing) or isinstance(env, Missing):
        return units if isinstance(units, Missing) else env  # type: ignore[return-value]
    found = {name for name, value in (env or {}).items() if value == MASK}
    for unit in units:
        if isinstance(unit.run, Missing):
            return unit.run
        found |= {name for name, value in unit.run.env.items() if value == MASK} | _flags(unit.run.arguments)
    return tuple(sorted(found))


def _flags(words: tuple[str, ...]) -> set[str]:
    """Options whose value was kept back: --api-key ***, --api-key=***."""
    joined = {word.partition("=")[0] for word in words if word.endswith(f"={MASK}")}
    return joined | {before for before, word in itertools.pairwise(words) if word == MASK}


def _preload(group: Group) -> Fact[tuple[str, ...]]:
    text = group.text(PRELOAD)
    if isinstance(text, Missing):
        return text
    lines = (line.partition("#")[0] for line in (text or "").splitlines())
    return tuple(word for line in lines for word in re.split(r"[\s:]+", line) if word)


def _segments(group: Group) -> Fact[Mapping[str, int]]:
    text = group.entries.get("segments")
    if not isinstance(text, str):
        return Missing(f"{SHM} could not be listed")
    rows = [re.fullmatch(r"(\S+) ([0-9]{1,9})", line) for line in text.splitlines()]
    found = {row[1]: int(row[2]) for row in rows if row}
    return found if tuple(found) == SEGMENTS else Missing(f"{SHM}: {one_line(text) or 'nothing printed'}")
