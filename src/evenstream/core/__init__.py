"""What a learner is made of: labels, memory, randomness, classifier, rows, parts, steps."""
