"""Layer weights: the model on local storage, from a mirror or Hugging Face, at one revision. Never deletes any.

The site says where from (`weights.source`); without that the layer does nothing. The revision that was fetched is one
line in `.rackproof-revision` beside the shards, written last.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rackproof import recipes
from rackproof.deploy import weights_scripts as scripts
from rackproof.deploy.node import Node
from rackproof.deploy.weights_read_rate import measure as read_rate
from rackproof.errors import InputError, MissingFact, RackproofError
from rackproof.facts import Missing, known
from rackproof.facts_weights import WeightsFacts
from rackproof.inventory import refuse
from rackproof.recipes import settings
from rackproof.site import Site
from rackproof.verdict.report.clean import clean

FETCH_S = 24 * 3600  # 1.56 TB at 20 MB/s; a transfer that stands still is noticed within two minutes
TOKEN_VARIABLE = "HF_TOKEN"


@dataclass(frozen=True)
class WeightsState:
    """`revision` as a deploy recorded it, "" where none did; `missing`: what keeps the directory from being whole, or ""."""

    revision: str
    missing: str


def bring_about(node: Node) -> None:
    """Fetch what is not there yet. A directory that holds another revision is left as it is, and said."""
    source = node.site.value("weights", "source", default="none")
    with node.layer("weights"):
        if source == "none":
            return
        try:
            directory = node.site.require("serving", "model_directory").value
            wanted = _revision(node)
            try:
                there = state_of(known(node.facts.weights))
            except MissingFact as missing:
                node.stop(f"cannot tell what {directory} holds: {clean(missing.reason)}")
                return
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


def state_of(found: WeightsFacts) -> WeightsState:
    """What the reading at the start says of a model directory; raises MissingFact where it does not say enough."""
    if not found.exists:
        return WeightsState("", f"there is no {found.path}")
    revision = known(found.revision)
    recorded = revision is not None and known(found.revision_source) == scripts.REVISION
    return WeightsState(revision if revision is not None and recorded else "", _missing(found))


def _missing(found: WeightsFacts) -> str:
    """By the same measures as the scripts that fill it: each shard of the index, as long as it says, and nothing half there."""
    if not known(found.index):
        return f"there is no {scripts.INDEX}"
    if isinstance(found.indexed, Missing):
        return f"{scripts.INDEX} names no shard"
    hollow = [*known(found.absent), *sorted(name for name, size in known(found.shard_sizes).items() if not size)]
    if hollow:
        return f"{hollow[0]} is not there, or empty"
    there, total = known(found.shard_bytes), found.indexed_bytes
    if not isinstance(total, Missing) and there < total:
        return f"the shards have {there} bytes, and their index says {total}"
    if not isinstance(found.wrong_size, Missing) and found.wrong_size:
        return f"{found.wrong_size[0].name} is not as long as its header says"
    return f"{known(found.incomplete)} downloads are unfinished" if known(found.incomplete) else ""


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
