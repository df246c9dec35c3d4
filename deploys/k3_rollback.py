"""Back to the baseline before the present one: driver, its pin, units and image, as the host's earlier stamp names them.

    pyinfra inventories/gb300.py deploys/k3_rollback.py

Refused before anything is changed where the packages or the image of that baseline are no longer to be had. Ends as
k3.py does, with the verdict of the checks, against the baseline that was gone back to.
"""

from rackproof.acceptance import acceptance
from rackproof.deploy.node import begin
from rackproof.deploy.rollback import remind, to_previous
from rackproof.deploy.stamp import finish
from rackproof.deploy.verify import verify
from rackproof.layers.container_runtime import deploy as container_runtime
from rackproof.layers.gpu_driver import deploy as gpu_driver
from rackproof.layers.host import deploy as host
from rackproof.layers.image import deploy as image
from rackproof.layers.nvlink import deploy as nvlink
from rackproof.layers.rdma import deploy as rdma
from rackproof.layers.serving import deploy as serving

node = begin()
to_previous(node)
host.bring_about(node)
rdma.before_driver(node)
gpu_driver.bring_about(node)
nvlink.bring_about(node)
container_runtime.bring_about(node)
rdma.bring_about(node)
image.bring_about(node)
serving.bring_about(node)
finish(node)
remind(node)
verify(node, acceptance)
