"""Where in the network?

A three-level fat-tree and who holds which of its nodes and links: readers for what a centre has,
allocators that keep jobs off each other's links, EASY backfilling on them, and a verifier of its own.
"""
