"""Stand-ins for NVIDIA's and AMD's programs, run inside a lab node by the node's own python3 (standard library only).

Truth comes from three places and nowhere else: the profile (what the hardware is), the files that the packages of
this node installed (versions), and the lab's live fault file. Formats follow real outputs; where one is from memory
the code says so.
"""
