"""A deploy of the image layer alone."""

from rackproof.deploy.node import begin
from rackproof.layers.image import deploy as image

image.bring_about(begin())
