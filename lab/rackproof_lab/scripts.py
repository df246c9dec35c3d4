"""What is inside the stand-in packages: wrappers, units, maintainer scripts, configuration files."""

from __future__ import annotations

LIBDIR = "/usr/lib/x86_64-linux-gnu"


def wrapper(program: str, version: str) -> str:
    """A program of a package: the stand-in, told which version this package is."""
    return (
        f'#!/bin/sh\n# lab stand-in for {program} {version}\nexec /usr/lib/rackproof-lab/run {program} {version} "$@"\n'
    )


def unit(description: str, command: str, kind: str, service: str = "", section: str = "") -> str:
    return (
        f"[Unit]\nDescription={description} (lab stand-in)\n{section}\n"
        f"[Service]\nType={kind}\nExecStart={command}\n{service}"
        "\n[Install]\nWantedBy=multi-user.target\n"
    )


# Tests tell a package to fail or to take its time: one package name, or a number of seconds, in a file.
_HOOKS = """
D=/etc/rackproof-lab.d
if [ "$1" = configure ] && [ -e $D/fail-postinst ] && grep -qx "$DPKG_MAINTSCRIPT_PACKAGE" $D/fail-postinst; then
  echo "lab: postinst of $DPKG_MAINTSCRIPT_PACKAGE told to fail" >&2; exit 1
fi
if [ "$1" = configure ] && [ -e $D/slow-postinst ]; then sleep "$(cat $D/slow-postinst)"; fi
"""


def postinst(more: str, units: tuple[str, ...], enable: bool) -> str:
    """First install enables the units that shall be enabled; an upgrade restarts what runs."""
    lines = ["#!/bin/sh", "set -e", _HOOKS.strip(), 'if [ "$1" = configure ]; then :', more.strip()]
    if units:
        names = " ".join(units)
        if enable:
            lines.append(f'if [ -z "$2" ]; then systemctl enable -q {names} || :; fi')
        start = "restart" if enable else "try-restart"
        lines += [f"if [ -d /run/systemd/system ]; then systemctl daemon-reload; systemctl {start} {names} || :; fi"]
    return "\n".join([*lines, "fi", ""])


def prerm(more: str, units: tuple[str, ...]) -> str:
    lines = ["#!/bin/sh", "set -e", 'if [ "$1" = remove ]; then :', more.strip()]
    if units:
        lines.append(f"if [ -d /run/systemd/system ]; then systemctl stop {' '.join(units)} || :; fi")
    return "\n".join([*lines, "fi", ""])


def postrm() -> str:
    return "#!/bin/sh\nset -e\nif [ -d /run/systemd/system ]; then systemctl daemon-reload || :; fi\n"


INITRAMFS = "update-initramfs -u -k all\n"


def dkms_install(version: str, license_name: str) -> str:
    """A 'module' for every kernel: a text file that the lab's boot model and its modinfo read."""
    return f"""
for k in /usr/lib/modules/*/; do
  [ -d "$k" ] || continue
  mkdir -p "$k/updates/dkms"
  for m in nvidia nvidia-uvm nvidia-modeset nvidia-drm nvidia-peermem; do
    printf 'version=%s\\nlicense=%s\\nvermagic=%s SMP preempt mod_unload\\n' \\
      '{version}' '{license_name}' "$(basename "$k")" > "$k/updates/dkms/$m.ko"
  done
  sed -i '/\\/nvidia/d' "$k/modules.dep"
  echo 'updates/dkms/nvidia.ko:' >> "$k/modules.dep"
done
update-initramfs -u -k all
"""


DKMS_REMOVE = """
for k in /usr/lib/modules/*/; do
  rm -f "$k"updates/dkms/nvidia*.ko
  if [ -e "$k/modules.dep" ]; then sed -i '/\\/nvidia/d' "$k/modules.dep"; fi
done
"""

PERSISTENCED_USER = """
if ! getent passwd nvidia-persistenced >/dev/null; then
  useradd --system --no-create-home --home-dir /nonexistent --shell /usr/sbin/nologin nvidia-persistenced
fi
"""

IMEX_CONFIG = """# Lab stand-in for the IMEX configuration file; the keys are those of the real one.
LOG_LEVEL=4
LOG_FILE_NAME=/var/log/nvidia-imex.log
SERVER_PORT=50000
IMEX_NODE_CONFIG_FILE=/etc/nvidia-imex/nodes_config.cfg
IMEX_CMD_ENABLED=1
IMEX_CMD_PORT=50005
IMEX_WAIT_FOR_QUORUM=RECOVERY
IMEX_NODE_DISCONNECTED_GRACE_TIME=-1
BIND_INTERFACE_IP=
NETWORK_INTERFACE=
IMEX_ENABLE_AUTH_ENCRYPTION=0
"""
IMEX_NODES = "# One address or host name a line, the same on every node, in the same order.\n"

CDI_SERVICE = """[Unit]
Description=Refresh NVIDIA CDI specification file (lab stand-in)
ConditionPathExists=/usr/bin/nvidia-ctk

[Service]
Type=oneshot
Environment=NVIDIA_CTK_CDI_OUTPUT_FILE_PATH=/var/run/cdi/nvidia.yaml
EnvironmentFile=-/etc/nvidia-container-toolkit/nvidia-cdi-refresh.env
ExecCondition=/bin/sh -c 'grep -qE "/nvidia.ko" /lib/modules/*/modules.dep'
ExecStart=/usr/bin/nvidia-ctk cdi generate

[Install]
WantedBy=multi-user.target
"""
CDI_PATH = """[Unit]
Description=Trigger CDI refresh on NVIDIA driver install (lab stand-in)

[Path]
PathChanged=/lib/modules/%v/modules.dep
PathChanged=/lib/modules/%v/modules.dep.bin

[Install]
WantedBy=multi-user.target
"""
