"""The look at the kernel that boots next, before a reboot; against a scripted modinfo and folders of the test."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from rackproof.deploy.reboot import _NEXT_KERNEL


def look(folder: Path, kernels: dict[str, str | None], images: tuple[str, ...]) -> subprocess.CompletedProcess[str]:
    """`kernels`: release -> version of its nvidia module, None where it has none."""
    programs = folder / "bin"
    programs.mkdir()
    for kernel in kernels:
        (folder / "lib/modules" / kernel).mkdir(parents=True)
        (folder / "lib/modules" / kernel / "modules.dep").touch()
    (folder / "boot").mkdir()
    for image in images:
        (folder / "boot" / f"vmlinuz-{image}").touch()
    cases = "".join(f"{kernel}) echo {version} ;; " for kernel, version in kernels.items() if version)
    (programs / "modinfo").write_text(f"#!/bin/sh\ncase $2 in {cases}*) exit 1 ;; esac\n")
    (programs / "dkms").write_text("#!/bin/sh\necho 'nvidia/580.126.20, 6.8.0-10, x86_64: installed'\n")
    for program in programs.iterdir():
        program.chmod(0o755)
    script = _NEXT_KERNEL.format(version="580.126.20").replace("/lib/modules", f"{folder}/lib/modules")
    depth = str(folder).count("/") + 4
    script = script.replace("/boot/", f"{folder}/boot/").replace("cut -d / -f 4", f"cut -d / -f {depth}")
    return subprocess.run(
        ["sh", "-c", f"set -eu\n{script}\necho goes on"], env={"PATH": f"{programs}:/usr/bin:/bin"}, text=True,
        capture_output=True, check=False, timeout=60,
    )  # fmt: skip


def test_a_newest_kernel_with_the_module_is_booted(tmp_path: Path) -> None:
    done = look(tmp_path, {"6.8.0-9": None, "6.8.0-10": "580.126.20"}, ("6.8.0-9", "6.8.0-10"))
    assert done.returncode == 0 and done.stdout == "goes on\n", done.stderr


@pytest.mark.parametrize("version", [None, "575.57.08"])
def test_a_newest_kernel_without_it_is_not_booted_and_named_with_what_to_do(
    tmp_path: Path, version: str | None
) -> None:
    done = look(tmp_path, {"6.8.0-9": "580.126.20", "6.8.0-10": version}, ("6.8.0-9", "6.8.0-10"))
    assert done.returncode == 1 and "goes on" not in done.stdout
    assert f"kernel 6.8.0-10 boots next, and its nvidia module is {version or 'none'}, wanted 580.126.20" in done.stderr
    assert "linux-headers-6.8.0-10" in done.stderr and "The host goes on as it is" in done.stderr
    assert "nvidia/580.126.20, 6.8.0-10" in done.stderr, "dkms says what it has"


def test_a_folder_without_an_image_is_no_kernel_that_boots(tmp_path: Path) -> None:
    done = look(tmp_path, {"6.8.0-10": "580.126.20", "7.0.0-1": None}, ("6.8.0-10",))
    assert done.returncode == 0, done.stderr
