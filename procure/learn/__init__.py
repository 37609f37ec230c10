"""What has a trained policy learnt to start?

A score per waiting job from what a scheduler can see, found by searching over whole simulated weeks; and the published
reinforcement learning as a Gymnasium environment and MaskablePPO.
"""

from procure.page.names import add_names

add_names(
    {
        "max_wait": "longest wait",
        "p95_wait": "95 % wait",
        "widest_wait": "wait of the widest 5 %",
        "user_wait": "mean of the users' mean waits",
        "utilization": "CPUs used",
    },
    seconds=("p95_wait", "max_wait", "widest_wait", "user_wait"),
    shares=("utilization",),
)
