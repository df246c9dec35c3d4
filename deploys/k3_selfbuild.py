"""UNSUPPORTED: builds vLLM from one pinned commit for hosts that stay on CUDA 12.9 / R575, or that want a branch.

    pyinfra inventories/gb300.py deploys/k3_selfbuild.py

The host is marked before anything is built, in every place a person could look, and never passes for the official
baseline: `rackproof verify` and `judge` end with exit code 4. The recipe names this way in one clause, and the only
public attempt found that a CUDA 12 build fails when the model is initialised. Needs in the site:

    selfbuild: {commit: <40 hex digits>, base: <image@sha256:...>, accept_unsupported: true}
"""

from rackproof.deploy import selfbuild
from rackproof.deploy.node import begin

node = begin(selfbuild=True)
selfbuild.bring_about(node)
