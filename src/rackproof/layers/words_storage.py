"""What checks of engines, images and serving share: versions, settings of daemons, CDI specs, serving units."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from rackproof.baseline import Baseline
from rackproof.facts import CdiSpec, Fact, ImageFacts, Missing, NodeFacts, known
from rackproof.facts_serving import DockerRun, RunningContainer, ServingUnitFile
from rackproof.facts_state import Listener
from rackproof.facts_system import EngineFacts, Filesystem, Limit, holding
from rackproof.layers.readings import Reading, of, seen
from rackproof.layers.words import pinned_images, plain_name, version
from rackproof.managed import File, managed_files

Config = Mapping[str, object]
DAEMONS = {"docker": "dockerd"}  # engines that are a service -> the name of its process
CONTAINERD = "containerd"  # of the service and of its process
_HOST_FLAGS = frozenset({"-H", "--host"})
_UNLIMITED = -1  # as daemon.json and docker run spell it


# --- engines ---


def at_least(text: Fact[str], least: str, what: str) -> Fact[Reading]:
    """A version against a floor."""
    floor = version(least, "the baseline")
    return seen(text, lambda found: version(found, what) >= floor)


def engines(facts: NodeFacts) -> Fact[EngineFacts]:
    return of(facts.system, lambda system: system.engines)


def hooks(facts: NodeFacts) -> Fact[tuple[str, ...]]:
    """Files by which podman puts NVIDIA's legacy hook into every container whose image names GPUs."""
    return of(facts.podman, lambda found: found.hooks)


def config(facts: NodeFacts) -> Fact[Config]:
    """daemon.json; nothing set where there is none."""
    return of(facts.runtime.daemon_config, lambda found: found or {})


def setting(found: Config, *keys: str) -> object:
    """A value at a path of keys, None where it is not set."""
    value: object = found
    for key in keys:
        value = value.get(key) if isinstance(value, Mapping) else None
    return value


def default_limit(facts: NodeFacts, name: str, part: str) -> Fact[int | None]:
    """A limit that daemon.json gives every container, Hard or Soft, -1 for no limit; None where it gives none."""
    odd = Missing(f"default-ulimits {name} in daemon.json is not understood")

    def read(found: Config) -> Fact[int | None]:
        value = setting(found, "default-ulimits", name)
        limit = setting(found, "default-ulimits", name, part)
        return None if value is None else limit if type(limit) is int else odd

    return of(config(facts), read)


def limit_reading(limit: Fact[int | None], ok: Callable[[int], bool]) -> Fact[Reading]:
    """A limit in daemon.json; a container for which none is set has the daemon's own."""
    return seen(
        limit,
        lambda found: found is not None and (found == _UNLIMITED or ok(found)),
        lambda found: "no default-ulimits" if found is None else f"default-ulimits {found}",
    )


def inherited(facts: NodeFacts, engine: str, which: str) -> dict[str, Fact[Limit]]:
    """A limit ("memlock", "open_files") that containers get where nothing else is said, by the process they get it from.

    That is containerd where it is a service of its own, and the engine's daemon where it starts containerd (moby/moby#44547).
    """
    name = DAEMONS.get(engine, engine)
    daemons = of(of(facts.system, lambda system: system.state), lambda found: found.daemons)
    if isinstance(daemons, Missing):
        return {name: daemons}
    return {
        one: getattr(daemons[one], which) if one in daemons else Missing(f"no process {one} was found")
        for one in (name, *({CONTAINERD} & set(daemons)))
    }


def said_twice(found: Config, exec_start: str) -> tuple[str, ...]:
    """Settings that stand in daemon.json and on the daemon's command line: with one of them twice it does not start."""
    flags = {word.partition("=")[0] for word in exec_start.split()}
    return tuple(sorted(key for key in found if f"--{key}" in flags or (key == "hosts" and flags & _HOST_FLAGS)))


def conflicts(specs: Sequence[CdiSpec]) -> tuple[str, ...]:
    """Device names that two specs of one directory give: the engine then knows neither."""
    seen_in: dict[tuple[str, str], int] = {}
    for spec in specs:
        folder = spec.path.rpartition("/")[0].removeprefix("/var")  # /var/run is /run
        for device in set(spec.devices):
            seen_in[folder, device] = seen_in.get((folder, device), 0) + 1
    return tuple(sorted({device for (_, device), times in seen_in.items() if times > 1}))


def by_hand(specs: Iterable[CdiSpec]) -> tuple[str, ...]:
    """Specs where no service refreshes them."""
    return tuple(spec.path for spec in specs if spec.path.startswith("/etc/"))


def image_data(facts: NodeFacts, baseline: Baseline) -> Fact[str]:
    """The directory in which image data lies: Docker's own, or containerd's where that keeps the images."""
    rules = baseline.runtime.rules
    root = facts.runtime.data_root
    return of(
        facts.runtime.storage_driver,
        lambda driver: rules.containerd_root if driver in rules.containerd_store else root,
    )


def named_as_pinned(images: Iterable[ImageFacts], baseline: Baseline) -> tuple[ImageFacts, ...]:
    """Images that carry the name of the baseline's repository, by tag or digest."""
    name = plain_name(baseline.image.repository)
    starts = (f"{name}:", f"{name}@")
    return tuple(
        image for image in images if any(plain_name(one).startswith(starts) for one in (*image.tags, *image.digests))
    )


def _marked_labels(labels: Mapping[str, str], label: str) -> tuple[str, ...]:
    return tuple(f"label {key}={value}" for key, value in labels.items() if label.lower() in f"{key}={value}".lower())


def selfbuild_words(image: ImageFacts, label: str) -> tuple[str, ...]:
    """Labels and tags in which an image says that somebody built it himself."""
    return (*_marked_labels(image.labels, label), *(f"tag {tag}" for tag in image.tags if "selfbuild" in tag.lower()))


def cuda_version(facts: NodeFacts) -> Fact[str]:
    """The newest CUDA version that the driver knows, by nvidia-smi."""
    return of(facts.smi, lambda smi: smi.cuda_version)


def minor(text: str, what: str) -> tuple[int, int]:
    """Major and minor number of a version."""
    found = version(text, what)
    return found.major, found.minor


def filesystem_at(facts: NodeFacts, path: Fact[str]) -> Fact[Filesystem]:
    """The file system that holds a path."""
    listed = of(facts.system, lambda system: system.filesystems)
    absolute = of(path, lambda where: where if where.startswith("/") else Missing(f"{where!r} is no absolute path"))
    return of(absolute, lambda where: of(listed, lambda found: holding(found, where)))


# --- serving ---


def engines_running(facts: NodeFacts, baseline: Baseline) -> Fact[tuple[RunningContainer, ...]]:
    """Containers that run an inference engine: by their command, by our name, by the name of their image, by its label."""
    name, label = plain_name(baseline.image.repository), baseline.serving.selfbuild_label

    def engine(one: RunningContainer) -> bool:
        official = plain_name(one.named).startswith((f"{name}:", f"{name}@"))
        return one.engine or one.name.startswith("rackproof-") or official or bool(_marked_labels(one.labels, label))

    return of(facts.runtime.running, lambda found: tuple(one for one in found if engine(one)))


def official_or_in_use(facts: NodeFacts, baseline: Baseline) -> Fact[tuple[ImageFacts, ...]]:
    """Images that carry the official name or digest, that run, or that a serving unit starts."""
    pinned = {image.id for image in known(pinned_images(facts, baseline))}
    used = {one.image for one in known(engines_running(facts, baseline))}
    started = {plain_name(found.image) for unit in known(units(facts)) if (found := unit.run) and isinstance(found, DockerRun)}

    def wanted(image: ImageFacts) -> bool:
        names = {plain_name(one) for one in (*image.tags, *image.digests)}
        return image.id in pinned | used or image.id in started or bool(names & started)

    named = {image.id for image in named_as_pinned(known(facts.runtime.images), baseline)}
    return of(facts.runtime.images, lambda found: tuple(one for one in found if one.id in named or wanted(one)))


def running_selfbuilds(containers: Iterable[RunningContainer], label: str) -> dict[str, tuple[str, ...]]:
    """Containers whose labels, or the name of whose image, say that somebody built it himself."""
    found = {
        f"container {one.name}": (*_marked_labels(one.labels, label), *(("image " + one.named,) if "selfbuild" in one.named.lower() else ()))
        for one in containers
    }
    return {name: words for name, words in found.items() if words}


def in_container(holder: str, containers: Iterable[RunningContainer]) -> bool:
    """Whether a program that holds a GPU ("name (pid, user alice, container 0123456789ab)") runs in one of these."""
    return any(f"container {one.id[:12]}" in holder for one in containers)



def units(facts: NodeFacts) -> Fact[tuple[ServingUnitFile, ...]]:
    return of(facts.serving, lambda found: found.units)


def one_unit(facts: NodeFacts) -> Fact[ServingUnitFile]:
    """The unit that serves; Missing where there is none, or several and nobody knows which."""
    return of(
        units(facts),
        lambda found: found[0] if len(found) == 1 else Missing(f"{len(found)} serving units are on the node"),
    )


def serving_files(baseline: Baseline) -> tuple[File, ...]:
    """The unit and its environment as the launch renders them; not known where nobody said which nodes serve together."""
    files = tuple(file for file in managed_files(baseline) if file.layer == "serving")
    return known(files or Missing("no inventory says which rank this node has, so its unit is not known"))


def run(facts: NodeFacts) -> Fact[DockerRun]:
    return of(one_unit(facts), lambda unit: unit.run)


def option(facts: NodeFacts, *names: str) -> Fact[tuple[str, ...]]:
    """Values of an option of docker run under any of its names; () where it is not given."""
    return of(run(facts), lambda found: tuple(value for name in names for value in found.options.get(name, ())))


def flag(facts: NodeFacts, name: str) -> Fact[bool]:
    """Whether a bare flag of docker run is given; `--privileged=false` is not."""
    return of(run(facts), lambda found: name in found.options and found.options[name] != ("false",))


def environment(facts: NodeFacts) -> Fact[Mapping[str, str]]:
    """What the engine's environment will be: serving.env, and over it what the unit itself says."""
    own = of(run(facts), lambda found: found.env)
    file = of(facts.serving, lambda found: of(found.env_file, lambda env: env or {}))
    return of(file, lambda lower: of(own, lambda upper: {**lower, **upper}))


def contradictions(env: Mapping[str, str], baseline: Baseline) -> tuple[str, ...]:
    """NAME=value of variables that contradict the layout and its fabric."""
    return tuple(
        f"{name}={env[name]}" for name, values in baseline.serving.forbidden if env.get(name, "").strip() in values
    )


def gpu_subset(env: Mapping[str, str], baseline: Baseline) -> tuple[str, ...]:
    """NAME=value of variables that hide a GPU from the engine."""
    wanted = {str(index) for index in range(baseline.gpus.count)}
    return tuple(
        f"{name}={env[name]}"
        for name in baseline.serving.gpu_lists
        if name in env and env[name] != "all" and set(env[name].replace(" ", "").split(",")) != wanted
    )


def lasts(env: Mapping[str, str], name: str, least: int) -> bool:
    """Whether a duration in seconds is set and long enough."""
    value = env.get(name, "")
    return value.isascii() and value.isdigit() and int(value) >= least


def memlock_words(limits: Iterable[str]) -> tuple[str, ...]:
    """Values of --ulimit memlock=..."""
    return tuple(limit.partition("=")[2] for limit in limits if limit.startswith("memlock="))


def nccl(env: Mapping[str, str] | None) -> str:
    """Settings of NCCL, UCX and Gloo that all ranks must share, in order; which interface and HCA may differ."""
    own = ("_IFNAME", "_HCA", "_GID_INDEX", "_SIDE_CHANNEL_HOST")
    shared = {
        name: value
        for name, value in (env or {}).items()
        if name.startswith(("NCCL_", "UCX_", "GLOO_")) and not name.endswith(own)
    }
    return " ".join(f"{name}={value}" for name, value in sorted(shared.items())) or "none"


def listening(facts: NodeFacts) -> Fact[tuple[Listener, ...]]:
    return of(of(facts.system, lambda system: system.state), lambda state: state.listening)


def used_share(filesystem: Filesystem) -> Fact[float]:
    """How much of a file system is in use, from 0 to 1."""
    return of(
        filesystem.size_bytes,
        lambda size: of(
            filesystem.available_bytes,
            lambda free: 1 - free / size if size > 0 else Missing(f"{filesystem.mount} has no size"),
        ),
    )
