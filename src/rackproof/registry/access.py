"""How the registry of a site is reached: its CA, TLS or none, and this machine's credentials."""

from __future__ import annotations

from pathlib import Path

from rackproof.registry import credentials
from rackproof.registry.client import Registry
from rackproof.registry.reference import Reference
from rackproof.registry.transport import Transport
from rackproof.site import Site


def registry_for(reference: Reference, site: Site, ca_file: Path | None = None, plain_http: bool = False) -> Registry:
    """What answers for a reference; options win over the site. Raises InputError for a CA or credentials of no use."""
    named = site.value("image", "ca_file")
    transport = Transport(
        ca_file or (Path(named) if named else None),
        plain_http=plain_http or bool(site.value("image", "plain_http", default=False)),
    )
    return Registry(reference, transport, credentials.find(reference.registry))
