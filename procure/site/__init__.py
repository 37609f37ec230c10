"""Under which rules does this centre start jobs?

A *site* is a folder of two files, which `procure.site.store` reads and writes: ``site.toml``, the rules
(`procure.site.model.Site`), and ``nodes.csv``, a node table with features and weights.
"""
