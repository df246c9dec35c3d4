"""A deploy of the serving layer alone, with its stamp: weights of 1.5 TB are not in the lab, so no node is accepted whole."""

from rackproof.deploy.node import begin
from rackproof.deploy.stamp import finish
from rackproof.layers.serving import deploy as serving

node = begin()
serving.bring_about(node)
finish(node)
