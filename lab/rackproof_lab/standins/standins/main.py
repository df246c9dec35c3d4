"""Which stand-in answers to which program name."""

from __future__ import annotations

import importlib
import os
import sys

MODULES = {
    "nvidia-smi": "smi",
    "nvidia-imex": "imex",
    "nvidia-imex-ctl": "imex_ctl",
    "nvidia-ctk": "ctk",
    "nvidia-persistenced": "daemons",
    "nv-fabricmanager": "daemons",
    "nv-hostengine": "daemons",
    "nvidia-modprobe": "daemons",
    "dcgmi": "dcgmi",
    "amd-smi": "amd_smi",
    "rocm-smi": "rocm_smi",
    "amd-ctk": "amd_ctk",
}


def main(program: str, version: str, args: list[str]) -> None:
    """Run one stand-in; `version` is the upstream version of the package that ships the program."""
    module = importlib.import_module(f".{MODULES[program]}", __package__)
    try:
        code = module.main(program, version, args)
        sys.stdout.flush()
    except BrokenPipeError:
        os._exit(141)  # at once: a normal exit would flush again and complain
    sys.exit(code)
