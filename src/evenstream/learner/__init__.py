"""The learner: owns the loop, the network, the memory, the labels and all state."""
