"""The supported path: brings a host to the official vLLM recipe baseline for Kimi K3.

    pyinfra inventories/gb300.py deploys/k3.py

Layers in the order a host is built up. Each looks at what was read from the node and adds operations only where the
node is not as the baseline wants it; a second run changes nothing. In the end every host is judged by the checks that
`rackproof verify` runs, and one that is not accepted has failed.
"""

from rackproof.acceptance import acceptance
from rackproof.deploy.node import begin
from rackproof.deploy.selfbuild import convert
from rackproof.deploy.stamp import finish
from rackproof.deploy.verify import verify
from rackproof.layers.container_runtime import deploy as container_runtime
from rackproof.layers.gpu_driver import deploy as gpu_driver
from rackproof.layers.host import deploy as host
from rackproof.layers.image import deploy as image
from rackproof.layers.nvlink import deploy as nvlink
from rackproof.layers.rdma import deploy as rdma
from rackproof.layers.serving import deploy as serving
from rackproof.layers.weights import deploy as weights

node = begin()
convert(node)
host.bring_about(node)
rdma.before_driver(node)
gpu_driver.bring_about(node)
nvlink.bring_about(node)
container_runtime.bring_about(node)
rdma.bring_about(node)
image.bring_about(node)
weights.bring_about(node)
serving.bring_about(node)
finish(node)
verify(node, acceptance)
