"""The version, in the one place from which packaging, manifests and ``--version`` read it."""

__version__ = "0.1.0"
