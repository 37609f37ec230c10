"""The discrete-event simulator: what a policy may see, the truth behind it, and the one loop.

`arrays` turns tables into arrays, `state` holds the two named tuples, `steps` the kernels that move
them, `drive` the loop, `fast_lane` the same loop specialised for best-fit bin packing of single-node
jobs, `metrics` what a run is measured by. Nothing here imports a policy.
"""
