"""deploys/k3_rollback.py without the layers that this test does not change, and without the verdict."""

from rackproof.deploy.node import begin
from rackproof.deploy.rollback import remind, to_previous
from rackproof.deploy.stamp import finish
from rackproof.layers.image import deploy as image
from rackproof.layers.serving import deploy as serving

node = begin()
to_previous(node)
image.bring_about(node)
serving.bring_about(node)
finish(node)
remind(node)
