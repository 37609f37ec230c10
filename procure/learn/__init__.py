"""What has a trained policy learnt to start?

A score per waiting job from what a scheduler can see, found by searching over whole simulated days; rollouts
with expected run times; and the published reinforcement learning as a Gymnasium environment and MaskablePPO.
"""
