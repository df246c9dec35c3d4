"""Evidence of healthy nodes, and the way from evidence to a result that every case goes."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from rackproof import recipes, site
from rackproof.baseline import Baseline, resolve
from rackproof.baseline_launch import Member, with_launch
from rackproof.evidence.evidence import Evidence
from rackproof.evidence.sections import Section, Status
from rackproof.judging import judge_all
from rackproof.managed import SERVING_ENVIRONMENT, SERVING_UNIT
from rackproof.plan import Plan, PlannedNode, Unit
from rackproof.site import Site
from rackproof.verdict.evaluate import Result

from . import gpu_sections, host_sections, other_sections
from .edits import Edit, put
from .machine import gone, machine, shown

TOOLS = ("imex_ctl", "fabric_manager", "nvidia_ctk", "nvidia_smi_xml", "nvidia_smi_topo", "nvidia_smi_p2p",
         "nvidia_smi_nvlink", "nvidia_smi_nvlink_errors", "nvidia_modinfo", "rocm_smi", "amd_smi_static", "amd_smi_metric",
         "amd_smi_process", "amd_smi_bad_pages", "amd_smi_firmware")  # fmt: skip
MODEL = "/models/Kimi-K3"
REVISION = "9f62e4e9fffbd0a83ddd60e1c209d828994b3569"


@dataclass(frozen=True, eq=False)
class Context:
    """Whose node it is: the product, the layout it is to serve, and what the site says.

    `serve`: the site installs a serving unit, and the node has the one that `rackproof launch` renders. `detect`: as
    `rackproof verify` without --hardware. `prepare`: what a healthy node of this context has besides.
    """

    hardware: str
    layout: str = ""
    site: Mapping[str, Any] = field(default_factory=dict)
    serve: bool = False
    detect: bool = False
    prepare: tuple[Edit, ...] = ()

    @property
    def layout_id(self) -> str:
        return self.layout or f"{self.hardware}-{'tp16' if self.hardware == 'b200' else 'tp8'}"

    @property
    def nodes(self) -> int:
        return recipes.load().layouts[self.layout_id].nodes

    def values(self) -> Site:
        values: dict[str, Any] = {"allow_derived": True, **self.site}
        if self.serve:
            across: dict[str, Any] = (
                {"interface": "eth0", "addresses": _addresses(self.nodes)} if self.nodes > 1 else {}
            )
            serving = {"install": True, "model_directory": MODEL, "cache_directory": "/models/cache"}
            values["serving"] = {**serving, **across, **self.site.get("serving", {})}
        return site.shipped().overlaid(values, "test")

    def sections(self, number: int) -> dict[str, str | Section]:
        """A healthy node's evidence in this context, by its number in the unit."""
        texts: dict[str, str | Section] = dict(healthy(self.hardware, number))
        if self.serve:
            texts |= served(self, number)
            put("node_state", "= units\n", "= units\n|rackproof-serving.service loaded inactive dead\n")(texts)
        if self.serve or "serving" in self.site:
            texts |= weights()
        for edit in self.prepare:
            edit(texts)
        return texts


def _addresses(nodes: int) -> list[str]:
    return [f"10.0.0.{number}" for number in range(1, nodes + 1)]


@cache
def healthy(hardware: str, number: int = 1) -> Mapping[str, str]:
    """Section -> text of one healthy node."""
    made = machine(hardware, number)
    found = host_sections.sections(made) | other_sections.sections(made, baseline(hardware))
    return found | (gpu_sections.sections(made) if made.vendor == "nvidia" else {})


@cache
def baseline(hardware: str) -> Baseline:
    """The baseline of a node about which no site has spoken."""
    return resolve(site.shipped(), hardware_id=hardware)


def installed(context: Context, number: int) -> Baseline:
    """The baseline of one node, with the serving unit of its rank where the site installs one."""
    rack: Any = {"domain": tuple(_addresses(context.nodes)), "domain_source": "inventory"}
    domain = rack if context.hardware == "gb300" else {}
    wanted = resolve(context.values(), hardware_id=context.hardware, layout_id=context.layout or None, **domain)
    names = [f"node{one:02d}" for one in range(1, context.nodes + 1)]
    member = Member(names[number - 1], tuple(zip(names, _addresses(context.nodes), strict=True)), "test")
    return with_launch(wanted, context.values(), member)


def served(context: Context, number: int) -> dict[str, str]:
    """The sections of what serves, with the unit of this node's rank, installed and not started."""
    files = dict(installed(context, number).serving.files)
    hashes = "".join(f"{hashlib.sha256(text.encode()).hexdigest()}  {path}\n" for path, text in files.items())
    return {
        "serving": (
            shown(SERVING_UNIT, files[SERVING_UNIT]) + shown(SERVING_ENVIRONMENT, files[SERVING_ENVIRONMENT])
            + gone("/etc/nccl.conf", "/etc/ld.so.preload") + shown("segments", "nccl- 0\npsm_ 0\nsem.mp- 0") + ".\n"
        ),
        "files": f"{hashes}.\n",
    }  # fmt: skip


def weights() -> dict[str, str]:
    """The whole checkpoint on a local disk, as 96 shards of nearly one size."""
    model = recipes.load().model
    total, count = model["bytes"].value, model["shards"].value
    names = [f"model-{number:05d}-of-{count:06d}.safetensors" for number in range(1, count + 1)]
    sizes = [total // count + (1 if number < total % count else 0) for number in range(count)]
    header = 492
    listed = "".join(f"file {size} ./{name}\n" for name, size in zip(names, sizes, strict=True))
    indexed = "".join(f"indexed {name}\n" for name in names)
    config = '{"architectures":["KimiK3ForCausalLM"],"model_type":"kimi_k3","quantization_config":{"quant_method":"compressed-tensors"}}'
    return {
        "weights": (
            f"asked {MODEL}\npath {MODEL}\n{listed}file 90 ./config.json\nindex\ntotal {total}\n{indexed}revision {REVISION}\n"
            f"config {config}\nincomplete 0\ndf /dev/nvme1n1 3700000000 1600000000 2100000000 44% /models\n"
            "mount /dev/nvme1n1 /models xfs rw,noatime 0 0\n.\n"
        ),
        "weights_headers": "".join(
            f"header {header} {size - 8 - header} {name}\n" for name, size in zip(names, sizes, strict=True)
        ) + f"shards={count}\n.\n",
    }  # fmt: skip


def evidence(name: str, texts: Mapping[str, str | Section]) -> Evidence:
    found = {
        tool: Section(tool, Status.ABSENT, None, 0.0, b"", b"", deadline_s=20) for tool in TOOLS if tool not in texts
    }
    found |= {
        key: text if isinstance(text, Section) else Section(key, Status.RAN, 0, 0.1, text.encode(), b"", deadline_s=20)
        for key, text in texts.items()
    }
    return Evidence(name, found, sha256="ab" * 32)


def given(context: Context, *edits: Edit, spoil: int = 1) -> tuple[Plan, Mapping[str, Evidence]]:
    """A unit of this context and the evidence of its nodes, that of one of them edited."""
    values, nodes, found = context.values(), [], {}
    for number in range(1, context.nodes + 1):
        name, texts = f"node{number:02d}", context.sections(number)
        for edit in edits if number == spoil else ():
            edit(texts)
        nodes.append(PlannedNode(name, values, None if context.detect else installed(context, number), unit="unit-1"))
        found[name] = evidence(name, texts)
    return Plan(tuple(nodes), (Unit("unit-1", tuple(found)),)), found


def judged(context: Context, *edits: Edit, spoil: int = 1) -> Result:
    """The unit of this context judged from its evidence."""
    return judge_all(*given(context, *edits, spoil=spoil))
