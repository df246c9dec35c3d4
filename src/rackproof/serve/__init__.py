"""Start, stop and look at what a deploy installed: one engine over the nodes of each deployment unit."""
