"""Asking a container registry about an image without pulling it (OCI distribution protocol, reading only).

    reference.py    the name of an image in its parts
    credentials.py  user and password from docker's own files and helpers, or the environment
    transport.py    one bounded HTTPS request: retries, redirects, sizes
    client.py       manifests and configurations, each verified against its digest
    image.py        what an image is: its digests by platform, and what its configuration states

Why no library: of those kept for Python, oras takes whatever digest the registry claims for a manifest and neither knows
multi-platform indexes nor rate limits, and both it and python-dxf let requests follow redirects by its own rules. What
is needed here are five GET requests, whose worth is in what they refuse, and the standard library has the parts.
"""

from rackproof.registry.image import Platform, Resolved, resolve
from rackproof.registry.reference import Reference
from rackproof.registry.transport import RegistryError, Trouble

__all__ = ["Platform", "Reference", "RegistryError", "Resolved", "Trouble", "resolve"]
