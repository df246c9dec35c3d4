"""The cases: the host's fact of each as a change of a healthy node's raw evidence, and what that must give.

A case expects exactly these requirements to fail, of the first node or of its unit (`fleet.`), and no other. `SOFTER`
says why a case that its reporters call worse ends as a warning or without an answer here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from .edits import Edit, put, unit, without
from .healthy import MODEL, Context

GATE, WARN, INFO = "gate", "warn", "info"


@dataclass(frozen=True)
class Case:
    """One case, or one of several forms of it (`form`)."""

    id: str
    context: Context
    edits: tuple[Edit, ...]
    fails: Mapping[str, str]  # requirement -> severity
    verdict: str
    form: str = ""
    unknown: tuple[str, ...] = ()  # gates of the node that must stay without an answer


GB300 = Context("gb300")
B300 = Context("b300")
B300_RDMA = Context("b300", "b300-tp16")
B200 = Context("b200")
H200 = Context("h200", "h200-tp16")
MI355X = Context("mi355x")
MI355X_RDMA = Context("mi355x", "mi355x-tp16")
B300_SERVES = Context("b300", serve=True)
B300_RDMA_SERVES = Context("b300", "b300-tp16", serve=True)
MI355X_SERVES = Context("mi355x", serve=True)
B300_WEIGHTS = Context("b300", site={"serving": {"model_directory": MODEL}})
DETECTED = Context("b300", detect=True)

XID = "NVRM: Xid (PCI:0000:{bus}:00): {rest}"
KUBERNETES = Context(
    "gb300",
    site={"imex": {"owner": "kubernetes"}},
    prepare=(
        unit("nvidia-imex", ActiveState="inactive", SubState="dead", UnitFileState="disabled"),
        lambda texts: texts.__delitem__("imex_ctl"),
        without("imex_files", "nodes_config|10\\.0\\.0"),
        put(
            "imex_files",
            "= /etc/nvidia-imex/config.cfg",
            "- /etc/nvidia-imex/nodes_config.cfg\n= /etc/nvidia-imex/config.cfg",
        ),
    ),
)
# Cases whose reporters expect a failure of the node and which do not reject it here, and why.
SOFTER = {
    "dgx-spark-cma-and-nccl-conf": "of GB10 no profile says what is expected, so its node is never accepted",
    "dra-imex-stale-invalid-handle": "a tool that hangs answers nothing; whether memory can be shared takes an active test",
    "dsv2-ray-profile-oom-44g": "of L40S no profile says what is expected, so its node is never accepted",
    "gptoss120-h100-no-cache-blocks": "the recipe has no layout for H100, so its node is never accepted",
    "hami-vllm025-tp2-hang": "the host's preload file counts for no container that does not mount it",
    "k3-gb300-host-ram-cgroup-oom": "190 GiB a rank is what one report measured, and no limit that vLLM states",
    "llmd-dp16-shm-leak": "a tenth of /dev/shm is a limit of ours, and segments of a program that runs are no fault",
    "rtxpro6000-iommu-hang-tp2": "a kernel may pass DMA through by default, which its command line does not show",
    "v0-load-model-oom-tp": "of T4 no profile says what is expected, so its node is never accepted",
}
# Cases of which no read of a host shows anything, and why.
UNREADABLE = {
    "b300-nvlstree-low-bandwidth": "a bandwidth between nodes: an active test of NCCL, and a defect of its release",
    "gpustack-803-vllm015-driver580": "which libcuda the image's own linker cache prefers: shows only inside the container",
    "k3-b300-vast-nvls-hang": "fabric, links and driver are healthy by every read: NVLS hangs only when it is used",
    "mooncake-b300-cumemcreate-800": "no HGX has an IMEX channel or needs one: the program asked for a fabric handle",
}
