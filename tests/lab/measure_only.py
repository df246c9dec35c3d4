"""What deploys/measure_read.py does."""

from rackproof.deploy.node import begin
from rackproof.layers.weights import deploy as weights

weights.measure(begin())
