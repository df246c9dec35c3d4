"""Layer weights: the model on local storage, from a mirror or Hugging Face, at one revision. Never deletes any.

The site says where from (`weights.source`); without that the layer does nothing. The revision that was fetched is one
line in `.rackproof-revision` beside the shards, written last.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from rackproof import recipes
from rackproof.deploy import weights_scripts as scripts
from rackproof.deploy.node import Node
from rackproof.deploy.weights_fact import WeightsState, read
from rackproof.deploy.weights_read_rate import measure as read_rate
from rackproof.errors import InputError, RackproofError
from rackproof.inventory import refuse
from rackproof.recipes import settings
from rackproof.site import Site
from rackproof.verdict.report.clean import clean

FETCH_S = 24 * 3600  # 1.56 TB at 20 MB/s; a transfer that stands still is noticed within two minutes
TOKEN_VARIABLE = "HF_TOKEN"


def bring_about(node: Node) -> None:
    """Fetch what is not there yet. A directory that holds another revision is left as it is, and said."""
    source = node.site.value("weights", "source", default="none")
    with node.layer("weights"):
        if source == "none":
            return
        try:
            directory = node.site.require("serving", "model_directory").value
            wanted = _revision(node)
            there = read(directory)
            if there.revision and there.revision != wanted:
                node.stop(
                    f"{directory} holds revision {clean(there.revision)}, and {wanted} is wanted: name another serving.model_directory"
                )
            elif there.revision != wanted or there.missing:
                _fetch(node, source, directory, wanted, there)
        except RackproofError as error:
            refuse(error)


def measure(node: Node) -> None:
    """Measure how fast the weights are read. Only when asked: it takes the disks for some seconds."""
    directory = node.site.require("serving", "model_directory").value
    limits = settings.load(node.baseline.recipe).limits
    slow = node.site.value("serving", "storage", default="local") == "slow"
    timeout = limits["ready_timeout_slow_storage_s" if slow else "ready_timeout_s"]
    node.watched(
        "Read rate of the weights",
        read_rate(
            directory, limits["read_sample_bytes"].value, limits["read_streams"].value, timeout.value, timeout.source
        ),
    )


def _fetch(node: Node, source: str, directory: str, revision: str, there: WeightsState) -> None:
    slow = node.site.value("serving", "storage", default="local") == "slow"
    model = recipes.load(node.baseline.recipe).model
    values = scripts.common(directory, revision, slow, model["bytes"].value)
    name = f"Fetch weights, revision {revision[:12]} ({clean(there.missing) or 'whole, but no revision was recorded'})"
    if source == "huggingface":
        _from_hub(node, name, values, model["repo"].value)
        return
    url = node.site.require("weights", "url")
    scheme, _, rest = url.value.partition("://")
    if scheme not in ("http", "https", "rsync"):
        raise InputError(url.source, f"weights.url is {url.value!r}", "rsync://, https:// or http:// of a folder")
    values |= {"url": f"{scheme}://{rest.rstrip('/')}"}
    if scheme == "rsync":
        if not node.version_of("rsync"):
            node.packages("Install rsync", "refresh\ninstall rsync")
        node.watched(name, scripts.fetch_rsync(values), FETCH_S)
        return
    protocols = "https" if scheme == "https" else "http,https"
    files = " ".join(node.site.value("weights", "files", default=()))
    node.watched(name, scripts.fetch_http({**values, "protocols": protocols, "files": files}), FETCH_S)


def _from_hub(node: Node, name: str, values: dict[str, object], repository: str) -> None:
    image, token = node.baseline.image, _token(node.site)
    more: dict[str, Any] = {
        "reference": image.reference, "tagged": f"{image.repository}:{image.tag}",
        "repository": node.site.value("weights", "repository", default=repository),
        "endpoint": node.site.value("weights", "url", default=""), "with_token": int(bool(token)),
        "engine": node.baseline.runtime.engine,
    }  # fmt: skip
    node.watched(name, scripts.fetch_huggingface({**values, **more}), FETCH_S, secret=token)


def _revision(node: Node) -> str:
    """The recipe's, unless the site pins another."""
    pinned = node.site.get("weights", "revision")
    return str((pinned or recipes.load(node.baseline.recipe).model["revision"]).value)


def _token(site: Site) -> str:
    """From a file the site names, or the environment of this machine; "" where there is none."""
    named = site.get("weights", "token_file")
    if named is None:
        return os.environ.get(TOKEN_VARIABLE, "").strip()
    try:
        return Path(named.value).expanduser().read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError):
        raise InputError(
            named.source, f"{named.value} cannot be read on this machine", "a file that holds the token"
        ) from None
