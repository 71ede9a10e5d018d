"""A River stream in which, half-way, one feature disappears and another appears.

python examples/river_features_come_and_go.py
"""

import random
from collections import deque

from river import preprocessing

from evenstream.river import Classifier

draw = random.Random(0)
model = preprocessing.StandardScaler() | Classifier(memory=200, lr=0.1, seed=0)
right: deque[bool] = deque(maxlen=50)
for step in range(1, 301):
    label = draw.choice(["calm", "storm"])
    wind = draw.gauss(8 if label == "storm" else 3, 2)
    x = {"pressure": draw.gauss(1000 if label == "storm" else 1015, 8)}
    x["wind, old sensor" if step <= 150 else "wind, new sensor"] = wind
    right.append(model.predict_one(x) == label)
    model.learn_one(x, label)
    if step % 50 == 0:
        print(f"{step:5} rows, accuracy of the last 50: {sum(right) / 50:.2f}")
