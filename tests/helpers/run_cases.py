"""Settings whose runs are stopped, damaged and resumed, and must end as if they were not."""

CASES = {
    "table": {},
    "exact": {"checkpoint_every": 5},
    "window": {"method": "er-las:window=3", "checkpoint_every": 1},
    "macro": {"method": "er-las:prior=macro"},
    "random": {"method": "er-las:prior=random", "class_order": "seed", "seed": 5},
    "joint": {"method": "joint", "optimizer": "adam"},
    "images": {"network": "convnet", "augment": "crop1+flip", "momentum": 0.9},
    "online": {"eval_every": 3, "eval_images": 9, "eval_future": True},
    "schedule": {"batch_schedule": "increase", "batch": 8, "eval_every": 4},
}
