"""Small blends, and what their scores should be, written out label by label."""

import numpy as np
from scipy import sparse
from scipy.special import logit

from sparsenet import BlendClassifier, ExtremeClassifier
from sparsenet.core.rows import as_matrix
from sparsenet.engines.tree.fit_tree import SHIFT, SLOPE
from tests.support.planted import FAST, planted

SMALL = {name: value for name, value in FAST.items() if name not in ("n_jobs", "random_state")}
NOISY, NOISY_Y = planted(n=3000, n_features=601, n_labels=600, seed=1)


def blend(**parameters):
    """Make a classifier of one thread and one seed, with a small network; `parameters` override."""
    return BlendClassifier(**{"network": ExtremeClassifier(**SMALL), "random_state": 0, "n_jobs": 1, **parameters})


def light(**parameters):
    """Make a classifier without a network, of one thread and one seed; `parameters` override."""
    return blend(**{"network": "drop", **parameters})


def noisy_blend(network=None):
    """Train a blend on three thousand points of six hundred labels."""
    network = ExtremeClassifier(hidden=16, epochs=20, batch_size=64) if network is None else network
    return blend(network=network).fit(NOISY, sparse.csr_array(NOISY_Y))


def cosines(features, rows, rarity):
    """Weigh features by a power of their inverse frequency, and compare rows with all points in 8 bits."""
    features, rows = features.toarray().astype(float), rows.toarray().astype(float)
    weights = np.log1p(len(features) / np.maximum((features != 0).sum(axis=0), 1)) ** rarity
    features, rows = features * weights, rows * weights
    features /= np.maximum(np.linalg.norm(features, axis=1), 1e-30)[:, None]
    digits, exponents = np.frexp(np.maximum(np.abs(features).max(axis=0), 1e-30) / 127)
    steps = np.ldexp(np.floor(digits * 256) / 256, exponents)
    points = np.clip(np.rint(features / steps), -127, 127) * steps
    return rows @ points.T / np.maximum(np.linalg.norm(rows, axis=1), 1e-30)[:, None]


def shares_of(model, rows, k):
    """Return the share of the k nearest training points' weight that each label has, (n, n_labels); NaN without any."""
    near = np.maximum(cosines(NOISY, rows, model.neighbors_.rarity), 0)
    shares = np.empty((len(near), NOISY_Y.shape[1]))
    for own, out in zip(near, shares, strict=True):
        best = np.argsort(-own, kind="stable")[:k]
        weights = own[best] ** model.neighbors_.power
        out[:] = weights @ NOISY_Y[best] / weights.sum() if weights.any() else np.nan
    return shares


def penalties_of(model, rows, n):
    """Return the penalty of the labels that the tree ranks among its best n, a dictionary for each point."""
    beam = model.tree_.beam
    try:
        ids, p = model.tree_.set_params(beam=2 * beam).topk_numbers(as_matrix(model._features(rows)), n)
    finally:
        model.tree_.set_params(beam=beam)
    roots = (logit(p.astype(np.float64)) - SHIFT) / SLOPE
    return [dict(zip(own.tolist(), root.tolist(), strict=True)) for own, root in zip(ids, roots, strict=True)]


def parts_of(model, rows, n, k):
    """Return what the parts make of the labels proposed for each point: {label: (penalty, log p, root of share)}."""
    shares = shares_of(model, rows, k) if k else np.full((rows.shape[0], NOISY_Y.shape[1]), np.nan)
    found = []
    for i, penalties in enumerate(penalties_of(model, rows, n)):
        own = dict(penalties)
        if k and n < NOISY_Y.shape[1]:
            named = [label for label in np.argsort(-shares[i], kind="stable")[: -(-n // 2)] if shares[i, label] > 0]
            own |= {int(label): max(penalties.values()) for label in named if int(label) not in own}
        if model.network_ is not None:
            z = model.network_.decision_function(as_matrix(model._features(rows[[i]])))[0].astype(np.float64)
            logs = {label: -np.log1p(np.exp(-z[label])) for label in own}
        else:
            logs = dict.fromkeys(own, 0.0)
        for label, penalty in own.items():
            opinion = np.exp(logs[label]) if model.network_ is not None else np.exp(-(penalty**2))
            share = 1.2 * opinion if np.isnan(shares[i, label]) else shares[i, label] + 0.2 * opinion
            own[label] = (penalty, logs[label], np.sqrt(share))
        found.append(own)
    return found
