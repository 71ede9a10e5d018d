"""What `Learner()` makes of data that nobody tuned it on, beside what one would use instead.

    python -m benchmarks.first_contact FOLDER --out FILE [--seeds 3] [--only NAME ...] [--who WHO]

What FILE has already is not run again, so that the same command goes on where it was stopped.

FOLDER holds .npz files with `x`, `y` and perhaps `x_test` and `y_test`; `image-segments`, `banana`
and `phishing` come with River. Nothing is set: every learner has its defaults.
"""
