"""How `Learner()` does on data it was never tuned on, compared with what you might use instead.

    python -m benchmarks.first_contact FOLDER --out FILE [--seeds 3] [--only NAME ...] [--who WHO]

Results that FILE already has are not run again, so the same command resumes after an interruption.

FOLDER holds .npz files with `x`, `y` and perhaps `x_test` and `y_test`; `image-segments`, `banana`
and `phishing` come with River. Nothing is set: every learner has its defaults.
"""
