"""A deploy of the weights layer alone."""

from rackproof.deploy.node import begin
from rackproof.layers.weights import deploy as weights

weights.bring_about(begin())
