"""What a deploy asks of dnf, by the real dnf 4 and rpm: pin, install, change of version, locks of others, repair, state.

The root file system is Debian's with dnf on top (lab/rackproof_lab/dnf_root.py): commands tested, not a Rocky host.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

from conftest import why_not
from rackproof import site
from rackproof.baseline import resolve
from rackproof.baseline_parts import PackageBaseline
from rackproof.deploy import onhost
from rackproof.deploy.packages import MANAGERS
from rackproof.evidence.tools import package_policy, packages
from rackproof.managed import LOCK, RPM_KEY, source_file
from rackproof.package_names import PackageNames, Platform, locked
from rackproof_lab import base, dnf_root, host

pytestmark = [pytest.mark.lab, pytest.mark.long]

NOW, OLDER = "580.126.20", "580.95.05"
Dnf = Callable[..., Any]


@pytest.fixture(scope="module")
def dnf() -> Dnf:
    """Runs a script behind the shell functions of dnf, in a fresh copy of the root each time."""
    if why_not():
        pytest.skip(why_not())
    host.check()
    host.ensure_programs(True, print)
    with base.cache_lock(print):
        root = base.ensure("trixie", print)
        layer = dnf_root.ensure(root, print)

    def run(script: str, ok: bool = True) -> Any:
        done = dnf_root.run(root, layer, f"set -eu\n{MANAGERS['dnf'].prelude}{script}")
        assert (done.returncode == 0) is ok, done.stdout[-2000:] + done.stderr[-2000:]
        return done

    return run


def names() -> PackageNames:
    values = {
        "hardware": "b300", "driver": {"version": NOW}, "packages": {
            "repository": "https://developer.download.nvidia.com/compute/cuda/repos/rhel10/x86_64/",
            "key_url": "https://example.test/key", "key_fingerprint": "A" * 40,
        },
    }  # fmt: skip
    found = resolve(site.shipped().overlaid(values, "test")).packages
    assert found is not None
    return found.names


def install(version: str) -> str:
    """As the layer gpu_driver writes it."""
    exact = (*names().driver, *names().fabric)
    wanted = "".join(f"want {version} {name}\n" for name in exact)
    return f"refresh\npin {version} - {' '.join(exact)}\nheaders\n{wanted}also {' '.join(names().fabric_unversioned)}\ngo\n"


RPMS = "rpm -qa --qf '%{NAME} %{VERSION}\\n' | sort\n"


def test_the_whole_stack_at_its_version_and_back_to_an_older_one(dnf: Dnf) -> None:
    done = dnf(
        f"{install(NOW)}echo = new; {RPMS}cat /etc/dnf/plugins/versionlock.list\n"
        f"dnf -y -q upgrade; echo = upgraded; {RPMS}{install(OLDER)}echo = older; {RPMS}"
    )
    new, upgraded, older = (re.split(r"^= \w+\n", done.stdout, flags=re.M)[part] for part in (1, 2, 3))
    for name in (*names().driver, *names().fabric):
        assert f"{name} {NOW}\n" in new and f"{name} {NOW}\n" in upgraded, (
            "610 is there, and an upgrade leaves it alone"
        )
        assert f"{name} {OLDER}\n" in older
        assert locked(package_policy.parse_versionlock(new), name, NOW)
    assert "nvlsm 2025.10.14\n" in new and "kernel-devel 5.14.0\n" in new


def test_headers_of_the_running_and_of_the_next_kernel(dnf: Dnf) -> None:
    done = dnf('refresh\nheaders\necho "= $noted"\n')
    assert done.stdout.split("= ")[-1].split() == [
        "kernel-devel-5.14.0-503.el9.x86_64", "kernel-devel-5.14.0-570.el9.x86_64",
    ]  # fmt: skip
    assert dnf("headers_of 5.14.0-503.el9.aarch64+64k").stdout == "kernel-64k-devel-5.14.0-503.el9.aarch64\n"


def test_a_version_that_is_not_there_changes_nothing(dnf: Dnf) -> None:
    done = dnf(f"refresh\nwant 580.1.2 nvidia-imex\ngo\n{RPMS}", ok=False)
    assert "no repository of this host offers nvidia-imex at version 580.1.2" in done.stderr
    assert "580.126.20-1" in done.stderr, "what there is instead"


def test_a_repository_that_does_not_answer_is_an_error(dnf: Dnf) -> None:
    done = dnf(
        "printf '[gone]\\nname=g\\nbaseurl=http://127.0.0.1:9/\\nenabled=1\\n' >/etc/yum.repos.d/g.repo\nrefresh\n",
        ok=False,
    )
    assert "gone" in done.stderr


_HOLD = """python3 - <<'PY' &
import time, dnf, dnf.lock
with dnf.lock.build_metadata_lock("/var/cache/dnf", True):
    open("/held", "w").close()
    while not __import__("os").path.exists("/waited"):
        time.sleep(0.05)
PY
while [ ! -e /held ]; do command sleep 0.05; done
"""


def test_a_lock_that_somebody_else_holds_is_waited_for(dnf: Dnf) -> None:
    done = dnf(f"sleep() {{ : >/waited; wait; }}\n{_HOLD}refresh\necho refreshed\n")
    assert done.stdout.endswith("refreshed\n"), "the other one let go only once it was being waited for"


def test_a_package_that_a_killed_rpm_left_twice_is_mended(dnf: Dnf) -> None:
    twice = "rpm -i --nosignature /repo/rpms/noarch/nvidia-imex-580.95.05-1.noarch.rpm\n" \
            "rpm -i --force --nosignature /repo/rpms/noarch/nvidia-imex-580.126.20-1.noarch.rpm\n"  # fmt: skip
    done = dnf(f"{twice}rpm -q nvidia-imex | wc -l; repair; rpm -q nvidia-imex\n")
    assert done.stdout.splitlines()[0] == "2" and done.stdout.splitlines()[-1] == "nvidia-imex-580.126.20-1.noarch"


def test_a_step_is_locked_and_journalled_and_says_how_the_host_stands(dnf: Dnf) -> None:
    run = onhost.Run("run-1", "me@here", 1, "")
    good = onhost.step(run, "nvlink", "Install", f"{MANAGERS['dnf'].prelude}{'refresh; want ' + NOW + ' nvidia-imex; go'}",
                       onhost.Watch(packages=True))  # fmt: skip
    bad = onhost.step(
        run,
        "nvlink",
        "Fail",
        f"{MANAGERS['dnf'].prelude}refresh\nwant 1.1 nvidia-imex\ngo\n",
        onhost.Watch(packages=True),
    )
    done = dnf(f"set +e\nmv /usr/bin/dpkg-query /usr/bin/dpkg-query.away\nsh -c {_quoted(onhost.take(run, None))}\nsh -c {_quoted(good)}; echo rc=$?\nsh -c {_quoted(bad)}; echo rc=$?\n"
               f"cat /var/lib/rackproof/journal.jsonl; test -f {LOCK}\n")  # fmt: skip
    assert "rc=0" in done.stdout and "rc=1" in done.stdout
    assert '"nvidia-imex": "580.126.20-1 installed"' in done.stdout, "the journal has what came"
    assert "this host is as usable as before: no package is half installed" in done.stderr


def test_the_probe_reads_such_a_host(dnf: Dnf) -> None:
    command = next(command for command in packages.COMMANDS if command.name == "packages")
    done = dnf(f"{install(NOW)}mv /usr/bin/dpkg-query /usr/bin/dpkg-query.away\necho '====='\n{command.script}")
    rows = packages.parse_packages(done.stdout.split("=====\n")[-1])
    assert isinstance(rows, list)
    found = packages.installed(rows)
    assert found["nvidia-driver-cuda"] == "3:580.126.20-1.el9" and found["nvidia-fabricmanager"] == "580.126.20-1"


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"


MAKE_KEY = """
mkdir -m 700 /gk
gpg --homedir /gk --batch -q --passphrase '' --quick-gen-key lab@lab ed25519 sign never
gpg --homedir /gk --armor --export >/key.asc
fpr=$(gpg --homedir /gk --with-colons --list-keys | awk -F: '$1 == "fpr" { print $10; exit }')
"""


def test_a_key_is_trusted_by_its_fingerprint_and_packages_by_that_key_alone(dnf: Dnf) -> None:
    script = MANAGERS["dnf"].key_script("file:///key.asc", "FINGERPRINT", RPM_KEY)
    wrong = script.replace("FINGERPRINT", "A" * 40)
    right = f'printf %s {_quoted(script)} | sed "s/FINGERPRINT/$fpr/g" >/k.sh; sh -eu /k.sh'
    packages = PackageBaseline("file:///repo/rpms", "", "", names(), Platform("rhel9", "el", "dnf", ()), None, "nvidia")
    source = source_file(packages)
    done = dnf(
        f"{MAKE_KEY}sh -euc {_quoted(wrong)} && echo trusted; [ ! -e {RPM_KEY} ] && echo none yet\n{right}\n"
        f"rm /etc/yum.repos.d/lab.repo; printf %s {_quoted(source.content)} >{source.path}\n"
        f"grep -c 'BEGIN PGP' {RPM_KEY}; refresh; set +e; install nvlsm; echo rc=$?; rpm -q nvlsm; true\n"
    )
    assert "trusted" not in done.stdout.replace("not trusted", "") and "none yet" in done.stdout
    assert "not trusted" in done.stderr
    assert "rc=0" not in done.stdout and "package nvlsm is not installed" in done.stdout, "nobody signed that package"
