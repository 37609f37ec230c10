"""Which jobs of a window, on which nodes?

Jobs are collected for some seconds and then placed together, so that the nodes of each lie close in a
fat-tree. After Lan, Xu, Huang, Huang and Feng, "Optimization of topology-aware job allocation on a
high-performance computing cluster by neural simulated annealing", whose model, program and annealing
stand here beside an exact dynamic program and a large-neighbourhood search.
"""
