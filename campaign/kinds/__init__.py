"""One file for each kind of attempt.

`attack(seed, folder)` makes EACH attempts, decided by the seed; FULL is the size of a campaign.
"""
