"""JSON Schema of the files in group_vars/: what a site may say, and in which form."""

from __future__ import annotations

from typing import Any

from rackproof.package_names import platforms

_VERSION = {
    "type": "string",
    "pattern": r"^[0-9]+(\.[0-9]+)+\Z",
    "description": "a version in quotes, digits and dots, such as '580.126.20'",
}
_DIGEST = {"type": "string", "pattern": r"^sha256:[0-9a-f]{64}\Z", "description": "sha256: and 64 hex digits"}
_TEXT = {"type": "string", "minLength": 1}
_FLAG = {"type": "boolean"}
_LINE = {  # one line of text: it ends up in units and shells, where a line break would start something else
    "type": "string",
    "pattern": r"^[^\x00-\x1f\x7f\u2028\u2029]+\Z",
    "description": "one line of text without control characters",
}
_FOLDER = {
    "type": "string",
    "pattern": r"^/[^\x00-\x1f\x7f\u2028\u2029]*\Z",
    "description": "an absolute path without control characters",
}
_URL = {  # it ends up in a repository file and in shells
    "type": "string",
    "pattern": r"^(https?|file)://[A-Za-z0-9.-]*(:[0-9]+)?(/[A-Za-z0-9._~%+:-]*)*\Z",
    "description": "http://, https:// or file:// without a user, a query or spaces",
}
_FINGERPRINT = {
    "type": "string",
    "pattern": r"^[0-9A-F]{40}\Z",
    "description": "the full fingerprint of the signing key: 40 upper-case hex digits",
}
_PORT = {"type": "integer", "minimum": 1, "maximum": 65535, "description": "a port, 1 to 65535"}
_COUNT = {"type": "integer", "minimum": 1}
_AMOUNT = {"type": "number", "exclusiveMinimum": 0}
_EVENTS = {"type": "number", "minimum": 0, "description": "a number of events, 0 or more"}
_USER = {
    "type": "string",
    "pattern": r"^[a-z_][a-z0-9_-]{0,31}\Z",
    "not": {"const": "root"},
    "description": "a user other than root: lower-case letters, digits, _ and -",
}
_ADDRESS = {
    "type": "string",
    "pattern": r"^[A-Za-z0-9]([A-Za-z0-9.:%_-]*[A-Za-z0-9])?\Z",
    "description": "an address or host name",
}
_BYTES = {"type": "integer", "minimum": 1, "description": "a number of bytes"}
_HCA = {
    "type": "string",
    "pattern": r"^[A-Za-z0-9_.-]+(:[0-9]+)?\Z",
    "description": "an RDMA device, such as mlx5_0 or mlx5_0:1",
}


def _group(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "additionalProperties": False, "properties": properties}


SCHEMA: dict[str, Any] = _group(
    recipe=_TEXT,
    layout=_TEXT,
    allow_derived=_FLAG,  # take a layout that is only rendered, which nobody has shown running
    hardware=_TEXT,
    ssh=_group(
        user=_TEXT,
        port={"type": "integer", "minimum": 1, "maximum": 65535},
        key_file=_TEXT,
        known_hosts_file=_TEXT,
        config_file=_TEXT,
        sudo=_FLAG,
    ),
    driver=_group(
        version=_VERSION,
        module_key_enrolled=_FLAG,  # the firmware trusts the key that DKMS signs with, so Secure Boot may stay on
    ),
    kernel=_group(tune=_FLAG),  # set the command line and the settings of rules/deploy.yaml
    rdma=_group(
        stack={"enum": ["none", "inbox", "doca"]},  # none: the network stack is somebody else's
        repository=_URL,  # of DOCA
        key_url=_URL,
        key_fingerprint=_FINGERPRINT,
    ),
    packages=_group(
        repository=_URL,
        platform={"enum": list(platforms())},  # of a mirror whose address does not say
        origin={"enum": ["nvidia", "ubuntu"]},  # of the driver; ubuntu: the repository is for the container toolkit alone
        replace_origin=_FLAG,  # remove GPU packages of another origin instead of refusing the host
        key_url=_URL,
        key_fingerprint=_FINGERPRINT,
    ),
    container=_group(
        engine={"enum": ["docker", "podman"]},
        engine_package=_TEXT,  # default: the distribution's package of the engine
        toolkit_version=_VERSION,  # of NVIDIA's container toolkit
        amd_toolkit={  # AMD's container toolkit, which nothing in the recipe needs: runtime amd, and a CDI spec
            **_group(version=_VERSION, repository=_URL),
            "required": ["version"],
        },
    ),
    image=_group(
        id=_TEXT,
        repository={
            "type": "string",
            "pattern": r"^[a-z0-9.-]+(:[0-9]+)?(/[a-z0-9._-]+)+\Z",
            "description": "registry and path of a mirror of the recipe's image: registry.example:5000/vllm/vllm-openai",
        },
        ca_file=_LINE,  # on the machine that deploys: PEM certificates of the CA that signed the mirror's
        plain_http=_FLAG,  # the mirror has no TLS; the engine of every host must be told so by other means
        free_bytes=_BYTES,  # what must be free for a pull, where the registry cannot be asked for the size
        archive=_group(  # instead of a registry: an OCI layout (folder or tar) or the output of docker save
            host=_FOLDER,  # on every host
            control=_LINE,  # on the machine that deploys, which copies it to the host
            manifests=_LINE,  # there too: what `image resolve --manifests` kept, for an archive without them
        ),
    ),
    weights=_group(
        source={"enum": ["none", "mirror", "huggingface"]},  # into serving.model_directory; none: somebody else does it
        url={
            "type": "string",
            "pattern": r"^(rsync|https?)://[A-Za-z0-9.-]+(:[0-9]+)?(/[A-Za-z0-9._~%+-]*)*\Z",
            "description": "rsync://, https:// or http:// of the folder, without a user or password",
        },
        repository={"type": "string", "pattern": r"^[A-Za-z0-9._-]+/[A-Za-z0-9._-]+\Z", "description": "owner/name"},
        revision={"type": "string", "pattern": r"^[0-9a-f]{40}\Z", "description": "a commit: 40 hex digits"},
        files={  # of a mirror without SHA256SUMS: what belongs to the model beside shards and index
            "type": "array",
            "minItems": 1,
            "items": {"type": "string", "pattern": r"^[A-Za-z0-9_][A-Za-z0-9_+.-]*\Z", "description": "a file name"},
        },
        token_file=_LINE,  # on the machine that deploys; else HF_TOKEN in its environment
    ),
    gpus=_group(
        expect_idle=_FLAG,
        users={"type": "array", "items": _USER, "minItems": 1},  # AMD: who use GPUs on the host itself, without root
    ),
    offer=_group(  # what was sold, in the seller's words; a difference is "not as advertised"
        gpus=_COUNT,
        gpu_product=_LINE,
        gpu_memory_gib=_AMOUNT,  # of one GPU, as its driver counts it
        nics={
            "type": "array",
            "minItems": 1,
            "items": {
                **_group(count=_COUNT, rate_gbit_per_s=_AMOUNT, link_layer={"enum": ["InfiniBand", "Ethernet"]}),
                "required": ["count", "rate_gbit_per_s"],
            },
        },
        nvme_count=_COUNT,
        nvme_bytes=_COUNT,  # of all local NVMe disks together
        ram_gib=_AMOUNT,
        sockets=_COUNT,
        cores=_COUNT,  # physical, of the whole node
        cpu_model=_LINE,
        bare_metal=_FLAG,
    ),
    imex=_group(owner={"enum": ["host", "kubernetes"]}),  # kubernetes: its DRA driver starts IMEX when a job needs it
    serving=_group(
        install=_FLAG,  # a unit that serves belongs on the node
        start=_FLAG,  # and runs, now and after every boot; else people start it (rackproof serve)
        model_directory=_FOLDER,  # where the weights lie on the host; the container sees the same path
        cache_directory=_FOLDER,  # local, writable: compiled kernels survive a restart
        ledger=_LINE,  # on the machine that runs `rackproof serve`: a JSON line for each start. Default: ledger.jsonl
        storage={"enum": ["local", "slow"]},  # slow: shared or network storage, where loading takes over an hour
        interface={
            "type": "string",
            "pattern": r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,14}\Z",
            "description": "the name of one network interface, such as enP6p3s0f0np0",
        },
        head_address=_ADDRESS,
        addresses={"type": "array", "items": _ADDRESS, "minItems": 1},  # of the unit, by rank; prefill before decode
        ports=_group(
            serve=_PORT, prefill=_PORT, decode=_PORT, nixl_prefill=_PORT, nixl_decode=_PORT, master=_PORT, dp_rpc=_PORT
        ),
        features={"type": "array", "items": {"enum": ["dspark", "text_only", "dcp", "all2all"]}},
        rdma=_group(
            hcas={"type": "array", "items": _HCA, "minItems": 1},
            gid_index={"type": "integer", "minimum": 0, "maximum": 255},
            dmabuf={"enum": ["works", "broken"]},
            peermem=_FLAG,  # nvidia_peermem is loaded on every node of the unit
        ),
        args={  # of `vllm serve`: text, true for a bare flag, false to leave one out
            "type": "object",
            "propertyNames": {"pattern": r"^[a-z0-9][a-z0-9-]*\Z", "description": "a long option without --"},
            "additionalProperties": {"if": {"type": "boolean"}, "then": True, "else": _LINE},
        },
        env={
            "type": "object",
            "propertyNames": {"pattern": r"^[A-Z_][A-Z0-9_]*\Z", "description": "an environment variable"},
            "additionalProperties": _LINE,
        },
    ),
    selfbuild=_group(  # deploys/k3_selfbuild.py, which nobody supports
        commit={"type": "string", "pattern": r"^[0-9a-f]{40}\Z", "description": "a commit: 40 hex digits"},
        base={
            "type": "string",
            "pattern": r"^[a-z0-9.-]+(:[0-9]+)?(/[a-z0-9._-]+)+@sha256:[0-9a-f]{64}\Z",
            "description": "an image by digest, with CUDA and PyTorch in it: registry/name@sha256:...",
        },
        repository=_LINE,  # of the source; default: vLLM's own
        containerfile=_LINE,  # on the machine that deploys, instead of the one that comes with rackproof
        accept_unsupported=_FLAG,
    ),
    convert=_FLAG,  # an official deploy may make an official host of one that was self-built
    reboot=_group(
        allow=_FLAG,
        batch={"type": "integer", "minimum": 1},
        settle_s={"type": "integer", "minimum": 1},
        timeout_s={"type": "integer", "minimum": 10},
    ),
    disrupt=_group(gpu_processes=_FLAG),
    rolling=_group(units={"type": "integer", "minimum": 1}, settle_s={"type": "integer", "minimum": 0}),
    drift=_group(  # how much counters may grow; what is shipped, with reasons: drift/policy.yaml
        **{
            name: _group(grow=_EVENTS, per_day=_EVENTS)
            for name in (
                "ecc_uncorrectable", "ecc_correctable", "rows_remapped", "pages_retired", "nvlink_errors", "rdma_errors",
                "carrier_changes", "aer_uncorrectable", "aer_correctable", "service_restarts",
                "media_errors",
            )
        }
    ),
    nightly=_group(  # the run on the control host: rackproof nightly, deploys/nightly.py
        user=_USER,
        venv=_FOLDER,  # the virtual environment there that has rackproof
        project=_FOLDER,  # the folder there with inventories/ and group_vars/
        inventory=_LINE,  # below project
        store=_FOLDER,  # history, evidence and reports
        at=_LINE,  # systemd.time(7), OnCalendar
        jitter_s={"type": "integer", "minimum": 0},
        deadline_s={"type": "integer", "minimum": 60},
        keep_days={"type": "integer", "minimum": 1},
        keep_runs={"type": "integer", "minimum": 1},
        fail_on=_LINE,
        on_change={"type": "array", "items": _LINE, "minItems": 1},  # a program and its arguments; no shell
        on_change_timeout_s={"type": "integer", "minimum": 1},
    ),
    simulation=_group(
        architecture={"enum": ["x86_64", "aarch64"]},
        operating_systems={"type": "array", "items": {"type": "string"}},
        image=_group(index=_DIGEST, amd64=_DIGEST, arm64=_DIGEST),
    ),
)
