"""What each format's own reader gives back is the argv that was meant, whatever the words hold.

The readers are not ours where there is one on the machine (sh, csv, YAML); for systemd it is a second reading of
systemd.service(5), which shares no code with the writer.
"""

from __future__ import annotations

import csv
import os
import random
import re
import subprocess
import sys
from collections.abc import Iterator

import pytest
import yaml
from launch_builders import launched

from rackproof.errors import InputError
from rackproof.launch import Launch, quoting, render

NASTY = [
    "/models/Kimi K3", "/models/it's", '/models/"k3"', "/models/$HOME", "/models/${HOME}", "/models/$$", "/models/100%",
    "/models/%h", "/models/%%n", "/models/a,b", "/models/a:b", "/models/back\\slash", "/models/trailing\\", "/models/;",
    "/models/#x", "/models/ü✓", "/models/`id`", "/models/$(id)", "/models/~", "/models/*?[a]", "/models/{a,b}",
    "/models/!x", "/models/ = ", "/models/'\"'\"'", "/models/&|<>",
]  # fmt: skip
ALPHABET = "ab/ '\"\\$%`;#,:={}()[]*?~!&|<>@-ü✓\u00a0"


def words(seed: int, count: int) -> list[str]:
    rng = random.Random(seed)
    return ["/" + "".join(rng.choices(ALPHABET, k=rng.randint(0, 12))) for _ in range(count)]


def nasty_launch(path: str) -> Launch:
    """A launch whose path, extra arguments and environment all hold the same nasty text."""
    return launched(
        "gb300-tp8", model_directory=path, cache_directory=path + " cache",
        args={"chat-template": path, "override-x": "-" + path, "empty-x": "x "}, env={"EXTRA": path, "OTHER": "a=b " + path},
    )  # fmt: skip


def sh(script: str) -> list[str]:
    """The words a real shell makes of a command: the command's name is replaced by a printer of its arguments."""
    printer = 'import sys; sys.stdout.write("\\0".join(sys.argv[1:]))'
    run = f"p() {{ {sys.executable} -c '{printer}' \"$@\"; }}\np {script}"
    out = subprocess.run(["sh", "-c", run], capture_output=True, check=True, env={"HOME": "/wrong", **os.environ})
    return out.stdout.decode().split("\0")


def command(text: str) -> str:
    """A rendered command without its comments."""
    return "".join(line for line in text.splitlines(True) if not line.startswith("#"))


def systemd_words(unit: str, key: str) -> list[str]:
    """Words of a command line in a unit, as systemd.service(5) and systemd.syntax(7) describe it."""
    joined = re.sub(r"\\\n", " ", command(unit))
    [line] = [line for line in joined.splitlines() if line.startswith(f"{key}=")]
    return [_expanded(word) for word in _split(line.split("=", 1)[1])]


def _split(text: str) -> Iterator[str]:
    word, quote, started, at = "", "", False, 0
    while at < len(text):
        char = text[at]
        if char == "\\":
            escapes = {"n": "\n", "t": "\t", "s": " ", "\\": "\\", '"': '"', "'": "'"}
            word, started, at = word + escapes[text[at + 1]], True, at + 2
            continue
        if quote:
            quote, word = ("", word) if char == quote else (quote, word + char)
        elif char in "'\"" and not started:
            quote, started = char, True
        elif char in " \t":
            if started:
                yield word
            word, started = "", False
        else:
            word, started = word + char, True
        at += 1
    assert not quote, "unbalanced quotes"
    if started:
        yield word


def _expanded(word: str) -> str:
    assert not re.search(r"(?<!%)(%%)*%(?!%)", word), f"a specifier in {word!r}"
    word = word.replace("%%", "%")
    assert not re.search(r"(?<!\$)(\$\$)*\$(?!\$)", word), f"a variable in {word!r}"
    return word.replace("$$", "$")


def compose_text(text: str) -> str:
    """A string after compose's interpolation, with nothing in its environment."""
    assert not re.search(r"(?<!\$)(\$\$)*\$(?!\$)", text), f"a variable in {text!r}"
    return text.replace("$$", "$")


def inner(docker: list[str]) -> list[str]:
    """What a docker command makes the container run."""
    image = next(at for at, word in enumerate(docker) if "@sha256:" in word)
    return [docker[docker.index("--entrypoint") + 1], *docker[image + 1 :]]


def options(docker: list[str], name: str) -> list[str]:
    return [docker[at + 1] for at, word in enumerate(docker) if word == name]


@pytest.mark.parametrize("path", NASTY)
def test_every_format_gives_back_the_same_argv(path: str) -> None:
    launch = nasty_launch(path)
    process = launch.processes[1]
    argv = list(process.argv)
    assert path in argv
    assert sh(command(render(launch, "argv", [process]))) == argv
    docker = sh(command(render(launch, "docker", [process])))
    assert inner(docker) == argv
    unit = systemd_words(render(launch, "systemd", [process]), "ExecStart")
    assert unit[1:] == docker[1:] and unit[0].startswith("/")
    service = yaml.safe_load(render(launch, "compose", [process]))["services"]["vllm"]
    assert [compose_text(word) for word in (*service["entrypoint"], *service["command"])] == argv


@pytest.mark.parametrize("path", NASTY)
def test_mounts_and_environment_survive(path: str) -> None:
    launch = nasty_launch(path)
    process = launch.processes[0]
    docker = sh(command(render(launch, "docker", [process])))
    mounts = [next(csv.reader([text])) for text in options(docker, "--mount")]
    assert mounts[0] == ["type=bind", f"source={path}", f"target={path}", "readonly"]
    assert mounts[1][1] == f"source={path} cache"
    wanted = {name: value.text for name, value in process.env.items()}
    assert dict(text.split("=", 1) for text in options(docker, "--env")) == wanted
    service = yaml.safe_load(render(launch, "compose", [process]))["services"]["vllm"]
    assert {key: compose_text(text) for key, text in service["environment"].items()} == wanted
    assert compose_text(service["volumes"][0]["source"]) == path
    script = "set -a\n" + render(launch, "env", [process]) + "\nenv -0"
    out = subprocess.run(["sh", "-c", script], capture_output=True, check=True, env={}).stdout.decode()
    found = dict(item.split("=", 1) for item in out.split("\0") if "=" in item)
    assert {name: found[name] for name in wanted} == wanted


@pytest.mark.parametrize("seed", range(40))
def test_random_words_survive_shell_systemd_and_csv(seed: int) -> None:
    chosen = words(seed, 25)
    assert sh(" ".join(quoting.shell(word) for word in chosen)) == chosen
    assert [_expanded(word) for word in _split(" ".join(quoting.systemd(word) for word in chosen))] == chosen
    assert next(csv.reader([quoting.csv_fields(chosen)])) == chosen
    assert [compose_text(quoting.compose(word)) for word in chosen] == chosen


@pytest.mark.parametrize("text", ["a\nb", "a\rb", "a\x00b", "a\x1b[31m"])
def test_control_characters_reach_no_file(text: str) -> None:
    for writer in (quoting.shell, quoting.systemd, quoting.compose, quoting.systemd_text, quoting.systemd_path):
        with pytest.raises(InputError):
            writer(text)
    with pytest.raises(InputError):
        launched("gb300-tp8", model_directory=f"/models/{text}")
    assert "\n" not in quoting.comment(text)


def test_unit_is_read_by_systemd_itself(tmp_path: object) -> None:
    import shutil
    from pathlib import Path

    tool = shutil.which("systemd-analyze")
    if tool is None:
        pytest.skip("systemd-analyze is not on this machine")
    launch = nasty_launch("/models/a b'\"$x%h\\")
    file = Path(str(tmp_path)) / "rackproof-gb300-tp8.service"
    text = render(launch, "systemd", launch.processes[:1])
    file.write_text(text.replace("/usr/bin/docker", "/bin/echo").replace("Requires=docker.service\n", ""))
    found = subprocess.run([tool, "verify", "--man=no", str(file)], capture_output=True, text=True, check=False)
    said = [line for line in found.stderr.splitlines() if file.name in line]
    assert not said, said
