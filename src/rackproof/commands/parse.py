"""`parse`: what rackproof understands of one tool's output. For support, and for trying a strange output."""

from __future__ import annotations

import dataclasses
import importlib
import json
import sys
from collections.abc import Mapping
from enum import Enum
from pathlib import Path
from typing import Any

import click

from rackproof.commands.options import debug
from rackproof.commands.output import say
from rackproof.errors import InputError

# tool -> module in evidence/tools and the function that takes the tool's output as text
TOOLS = {
    "amd-smi": ("amd_smi", "parse_amd_smi"),
    "amdgpu-ras": ("amd", "parse_ras"),
    "apt-cache-policy": ("package_policy", "parse_policy"),
    "apt-config": ("package_policy", "parse_apt_config"),
    "apt-mark-holds": ("package_policy", "parse_holds"),
    "cmdline": ("host", "parse_cmdline"),
    "containerd-config": ("engines", "parse_config"),
    "df": ("storage", "parse_df"),
    "dkms-status": ("kernels", "parse_dkms_status"),
    "dmesg": ("kernel_log", "parse_xids"),
    "dmesg-events": ("kernel_events", "parse_events"),
    "docker-images": ("container", "parse_images"),
    "engine-version": ("engines", "parse_version"),
    "fabricmanager-config": ("fabric_manager", "parse_config"),
    "fabricmanager-log": ("fabric_manager", "parse_log"),
    "fabricmanager-version": ("fabric_manager", "parse_version"),
    "ibdev2netdev": ("ib_tools", "parse_ibdev2netdev"),
    "ibstat": ("ib_tools", "parse_ibstat"),
    "ibv-devinfo": ("ib_tools", "parse_ibv_devinfo"),
    "imex-config": ("imex", "parse_config"),
    "imex-ctl": ("imex", "parse_domain"),
    "imex-nodes": ("imex", "parse_nodes"),
    "ip-addr": ("host", "parse_addresses"),
    "ip-json-addr": ("network", "parse_ip_addr"),
    "ip-json-route": ("network", "parse_ip_route"),
    "kfd-properties": ("amd", "parse_kfd"),
    "limits": ("system", "parse_limits"),
    "lsblk": ("storage", "parse_lsblk"),
    "lscpu": ("cpu", "parse_lscpu"),
    "lsmod": ("kernel_modules", "parse_lsmod"),
    "lspci": ("lspci", "parse_lspci"),
    "lspci-links": ("lspci", "parse_links"),
    "meminfo": ("system", "parse_meminfo"),
    "mlxlink": ("mlxlink", "parse_mlxlink"),
    "model-config": ("weights_listing", "parse_config"),
    "modinfo": ("nvidia_driver", "parse_modinfo"),
    "mokutil": ("system", "parse_mokutil"),
    "numactl": ("cpu", "parse_numactl"),
    "nvidia-ctk-version": ("container", "parse_toolkit_version"),
    "nvidia-params": ("nvidia_driver", "parse_params"),
    "nvidia-smi": ("nvidia_smi_table", "parse_table"),
    "nvidia-smi-csv": ("nvidia_smi_table", "parse_csv"),
    "nvidia-smi-list": ("nvidia_smi_table", "parse_list"),
    "nvidia-smi-nvlink": ("nvidia_nvlink", "parse_nvlink"),
    "nvidia-smi-nvlink-errors": ("nvidia_nvlink", "parse_errors"),
    "nvidia-smi-p2p": ("nvidia_topo", "parse_p2p"),
    "nvidia-smi-q": ("nvidia_smi_text", "parse_text"),
    "nvidia-smi-topo": ("nvidia_topo", "parse_topo"),
    "nvidia-smi-xml": ("nvidia_smi", "parse_xml"),
    "nvrm-version": ("nvidia_driver", "parse_nvrm_version"),
    "nvme-smart-log": ("nvme", "parse_smart_log"),
    "os-release": ("host", "parse_os_release"),
    "packages": ("packages", "parse_packages"),
    "rdma-link": ("ib_tools", "parse_rdma_link"),
    "rocm-smi": ("rocm_smi", "parse_rocm_smi"),
    "rocm-smi-topo": ("rocm_smi", "parse_rocm_topo"),
    "rocminfo": ("rocminfo", "parse_rocminfo"),
    "show-gids": ("ib_tools", "parse_show_gids"),
    "systemctl-show": ("systemd", "parse_units"),
    "uname": ("kernel_modules", "parse_uname"),
    "versionlock": ("package_policy", "parse_versionlock"),
}


def _list(context: click.Context, _: click.Parameter, wanted: bool) -> None:
    from rackproof.evidence.tools.values import one_line

    if not wanted:
        return
    for tool, (module, _function) in sorted(TOOLS.items()):
        about = importlib.import_module(f"rackproof.evidence.tools.{module}").__doc__ or ""
        say(f"{tool:<26}{one_line(' '.join(about.split()).split('. ')[0], 110)}\n")
    context.exit(0)


@click.command(short_help="Show what is understood of one tool's output.")
@click.argument("tool", type=click.Choice(sorted(TOOLS)), metavar="TOOL")
@click.argument("file", default="-")
@click.option("--list", is_flag=True, is_eager=True, expose_value=False, callback=_list, help="Print the tools and end.")
@debug
def parse(tool: str, file: str) -> int:
    """Print the facts in a tool's output as JSON. FILE is what the tool printed; default: standard input.

    A value that is not there is {"missing": reason}. Exit code 3 when nothing could be read at all.
    """
    from rackproof.facts import Missing

    module, function = TOOLS[tool]
    parser = getattr(importlib.import_module(f"rackproof.evidence.tools.{module}"), function)
    facts = parser(_text(file))
    say(json.dumps(plain_data(facts), indent=1, ensure_ascii=True) + "\n")
    return 3 if isinstance(facts, Missing) else 0


def plain_data(value: Any) -> Any:
    """Facts as JSON data: dataclasses as objects, Missing as {"missing": reason}, sets sorted, tuple keys joined."""
    from rackproof.facts import Missing

    if isinstance(value, Missing):
        return {"missing": value.reason}
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: plain_data(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {_key(key): plain_data(item) for key, item in value.items()}
    if isinstance(value, (set, frozenset)):
        return sorted(plain_data(item) for item in value)
    if isinstance(value, (list, tuple)):
        return [plain_data(item) for item in value]
    return value.value if isinstance(value, Enum) else value


def _key(key: object) -> str:
    return "-".join(str(part) for part in key) if isinstance(key, tuple) else str(key)


def _text(file: str) -> str:
    try:
        data = sys.stdin.buffer.read() if file == "-" else Path(file).read_bytes()
    except OSError as error:
        raise InputError(file, f"cannot be read: {error.strerror or error}", "a file with a tool's output") from None
    return data.decode("utf-8", "replace")
