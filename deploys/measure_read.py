"""How fast the weights are read on each node, against the time after which the engine is given up. Changes nothing.

    pyinfra inventories/gb300.py deploys/measure_read.py

Not part of any other run: it keeps the disks busy for some seconds.
"""

from rackproof.deploy.node import begin
from rackproof.layers.weights import deploy as weights

weights.measure(begin())
