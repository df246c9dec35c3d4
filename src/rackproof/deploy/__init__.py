"""The pyinfra side: reading a node once, and the few operations that layers use to change it."""
