"""A scikit-learn pipeline whose last step keeps learning, new classes included.

python examples/sklearn_new_classes.py
"""

import pickle

from sklearn.datasets import load_wine
from sklearn.preprocessing import StandardScaler

from evenstream.sklearn import OnlineClassifier

X, y = load_wine(return_X_y=True, as_frame=False)
scaler = StandardScaler().fit(X[y < 2])  # the third kind is not known yet
classifier = OnlineClassifier(memory=100, lr=0.1, epochs=5, random_state=0)
classifier.fit(scaler.transform(X[y < 2]), y[y < 2])
print(f"two kinds: accuracy {classifier.score(scaler.transform(X[y < 2]), y[y < 2]):.2f}")

classifier = pickle.loads(pickle.dumps(classifier))  # say, in another process, a week later
classifier.partial_fit(scaler.transform(X[y == 2]), y[y == 2])
print(f"three kinds: accuracy {classifier.score(scaler.transform(X), y):.2f} on all of them")
