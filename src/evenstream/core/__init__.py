"""Building blocks of a learner: labels, memory, randomness, classifier, rows, parts, steps."""
