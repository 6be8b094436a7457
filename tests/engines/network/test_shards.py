"""`ExtremeClassifier.fit(executor=...)`: labels in shards, with the same bits for any number of workers."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from scipy import sparse

from sparsenet import ExtremeClassifier, SampledSoftmax, Workers, kernels
from sparsenet.core import scratch as scratch_files
from sparsenet.engines.network import shard_tasks, shards
from sparsenet.engines.network.label_records import LabelRecords
from sparsenet.engines.network.model import Network
from sparsenet.engines.network.samplers import FrequencySampler, RandomSampler
from sparsenet.engines.network.shard_tasks import ShardPlan, sum_in_pairs, train_part
from sparsenet.engines.network.shards import Shards
from tests.support import pool_tasks
from tests.support.interrupting import StopAt
from tests.support.planted import X
from tests.support.pool_tasks import killing, processes
from tests.support.same_networks import assert_same_network, network, on_threads
from tests.support.same_trees import LABELS, POINTS

pytestmark = pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
SETTINGS = {
    "usual": {},
    "wide alone": {"hidden": 0},
    "deep alone": {"hidden": (16, 8), "wide": False, "optimizer": "adagrad", "dropout": 0.0},
    "all labels": {"sampler": "none", "epochs": 2, "precision": "bfloat16"},
}


@pytest.mark.parametrize("own", SETTINGS.values(), ids=SETTINGS)
def test_any_number_of_workers_gives_the_same_network(own):
    first = on_threads(1, own)
    for n in (2, 3, 16):
        assert_same_network(on_threads(n, own), first)


@pytest.mark.skipif(kernels.backend() != "native", reason="Numba rounds the wide weights of a shard differently")
def test_wide_weights_are_those_of_one_process():
    assert_same_network(on_threads(2, {"hidden": 0}), network({"hidden": 0}))


@pytest.mark.skipif(kernels.backend() != "native", reason="Numba rounds the wide weights of a shard differently")
def test_training_goes_on_in_one_process():
    models = on_threads(2, {"hidden": 0}), network({"hidden": 0})
    assert_same_network(*(model.partial_fit(POINTS[320:400], LABELS[320:400]) for model in models))


def test_points_may_stay_on_disk(tmp_path):
    assert_same_network(on_threads(1, cache=tmp_path), on_threads(1))


def test_hidden_layers_differ_from_one_process_by_rounding_only():
    usual, found = network({"epochs": 4}), on_threads(2, {"epochs": 4})
    for name, array in usual.network_.weights().items():
        np.testing.assert_allclose(found.network_.weights()[name], array, rtol=1e-3, atol=1e-5, err_msg=name)
    held = slice(320, 640)
    assert abs(found.score(POINTS[held], LABELS[held]) - usual.score(POINTS[held], LABELS[held])) < 0.01


@pytest.mark.parametrize("n_labels", [3, 40])
def test_shards_may_have_no_labels(n_labels):
    labels = sparse.csr_array(np.eye(n_labels)[np.arange(400) % n_labels])

    def fitted(n):
        with ThreadPoolExecutor(n) as pool:
            model = ExtremeClassifier(hidden=4, epochs=1, batch_size=64, random_state=0, n_jobs=1)
            return model.fit(X, labels, executor=pool)

    assert_same_network(fitted(16), fitted(1))


@pytest.mark.parametrize("max_chunks", [0, 1, 32])
def test_merging_records_does_not_change_the_bits(max_chunks, monkeypatch):
    usual = on_threads(1, {"epochs": 3})
    monkeypatch.setattr(shard_tasks, "CHUNK", 3)
    monkeypatch.setattr(shard_tasks, "BLOCK", 50)
    monkeypatch.setattr(shards, "MAX_CHUNKS", max_chunks)
    assert_same_network(on_threads(2, {"epochs": 3}), usual)


def test_few_files_stay_mapped(monkeypatch):
    monkeypatch.setattr(shard_tasks, "CHUNK", 4)
    monkeypatch.setattr(shards, "MAX_CHUNKS", 3)
    most, chunks, steps, blocks = 0, 3 + 1, 2 * 4, 1

    class Count:
        def on_batch(self, progress):
            nonlocal most
            most = max(most, len(scratch_files._mapped))

    with ThreadPoolExecutor(1) as pool:
        network({"epochs": 10}, executor=pool, callbacks=[Count()])
    assert 0 < most <= chunks + 2 * steps + 2 * blocks


def test_the_driver_holds_no_weights_of_labels_while_it_trains(monkeypatch):
    step, held = Shards.step, []

    def watched(self, *args, **how):
        result = step(self, *args, **how)
        held.extend(parameter.value.strides for parameter in self._network.output.parameters())
        return result

    monkeypatch.setattr(Shards, "step", watched)
    on_threads(1)
    assert set(held) == {(0, 0)}


def test_the_optimizer_takes_no_memory_of_the_driver():
    own = {"wide": False, "n_negatives": 16, "memory_limit": 250_000}
    with pytest.raises(MemoryError, match=r"training needs 296\.0 kB \(weights 74\.9 kB, optimizer 162\.9 kB"):
        network(own, n_points=64)
    on_threads(1, own, n_points=64)


def test_a_task_that_is_sent_again_writes_the_same(monkeypatch):
    """Each task runs three times: on a worker that is behind, on the one that has just done it, and on a new one."""
    usual = on_threads(2)

    def thrice(scratch, *arguments):
        names, step, part = arguments[1:4]
        written = []
        for _ in range(3):
            losses = train_part(scratch, *arguments)
            files = names.changes(step, part), names.below(step, part)
            written.append([array.tobytes() for name in files for array in _read(scratch, name)])
            if len(written) == 2:
                scratch_files._made.clear()
        assert written[0] == written[1] == written[2]
        return losses

    monkeypatch.setattr(shards, "train_part", thrice)
    assert_same_network(on_threads(2), usual)


def _read(scratch, name):
    scratch_files._mapped.pop((scratch.folder, name), None)
    return scratch.get(name)


def test_the_network_is_the_same_if_a_worker_is_killed(tmp_path):
    pools = []

    def pool():
        pools.append(processes(2))
        return pools[-1]

    with killing(tmp_path, "steps*.2.records0", lambda: next(iter(pools[0]._processes))):
        found = network({"epochs": 4}, executor=Workers(pool, scratch=tmp_path))
    assert_same_network(found, on_threads(1, {"epochs": 4}))
    assert len(pools) == 2
    assert list(tmp_path.iterdir()) == []


def test_hidden_units_are_dropped_and_scores_calibrated():
    own = {"hidden": "auto", "epochs": 3}
    validation = POINTS[320:900], LABELS[320:900]
    usual = network(own, validation=validation)
    assert usual.network_.input is None, "the data must show what happens without hidden units"
    one, two = (on_threads(n, own, validation=validation) for n in (1, 2))
    assert_same_network(one, two)
    assert one.choices_["hidden"].value == 0
    assert one.history_[-1]["P@1"] == pytest.approx(usual.history_[-1]["P@1"], abs=0.02)


def test_dropping_hidden_units_leaves_the_state_of_their_rows_with_the_workers(monkeypatch):
    drop, found = Network.drop_hidden, []

    def watched(self):
        found.append([sorted(parameter.state) for parameter in self.output.parameters()])
        drop(self)

    monkeypatch.setattr(Network, "drop_hidden", watched)
    on_threads(1, {"hidden": "auto", "epochs": 3}, validation=(POINTS[320:900], LABELS[320:900]))
    assert found == [[[], ["squares"], ["squares"]]]


def test_ctrl_c_while_labels_come_back_leaves_the_model_unchanged(tmp_path, monkeypatch):
    model = network()
    before, write, calls = model.network_, LabelRecords.write_to, []

    def interrupted(self, *args):
        calls.append(args)
        if len(calls) == 2:  # the first one is for the validation, this one for the checkpoint
            raise KeyboardInterrupt
        write(self, *args)

    monkeypatch.setattr(LabelRecords, "write_to", interrupted)
    how = {"validation": (POINTS[320:640], LABELS[320:640]), "checkpoint": tmp_path / "run"}
    with ThreadPoolExecutor(1) as pool, pytest.raises(KeyboardInterrupt):
        model.fit(POINTS[:320], LABELS[:320], executor=pool, **how)
    assert model.network_ is before


def test_an_interrupted_run_keeps_its_weights_and_resumes(tmp_path):
    own = {"epochs": 3}
    model, how = ExtremeClassifier(), {"checkpoint": tmp_path / "run"}
    model.set_params(**network(own).get_params())
    with ThreadPoolExecutor(2) as pool, pytest.raises(KeyboardInterrupt):
        model.fit(POINTS[:320], LABELS[:320], callbacks=[StopAt(8)], executor=pool, **how)
    assert np.isfinite(model.network_.output.weight.value).all()
    assert np.ptp(model.network_.output.weight.value) > 0
    assert_same_network(on_threads(1, own, resume=True, **how), on_threads(2, own))


def test_a_checkpoint_of_one_process_is_refused(tmp_path):
    with pytest.raises(KeyboardInterrupt):
        network({"epochs": 3}, checkpoint=tmp_path / "run", callbacks=[StopAt(2)])
    with pytest.raises(ValueError, match=r"shards of labels \(by executor\)=not recorded"):
        on_threads(1, {"epochs": 3}, checkpoint=tmp_path / "run", resume=True)


def test_ctrl_c_leaves_no_worker(tmp_path):
    pools = []

    def pool():
        pools.append(processes(2))
        return pools[-1]

    with pytest.raises(KeyboardInterrupt):
        network({"epochs": 3}, callbacks=[StopAt(3)], executor=Workers(pool, scratch=tmp_path))
    assert not pools[0]._processes
    assert list(tmp_path.iterdir()) == []


def test_ctrl_c_that_kills_the_workers_leaves_the_model_unchanged(monkeypatch):
    model = network()
    before = model.network_
    monkeypatch.setattr(shards, "train_part", pool_tasks.interrupt_all)
    with processes(1) as pool, pytest.raises(KeyboardInterrupt):
        model.fit(POINTS[:320], LABELS[:320], executor=pool)
    assert model.network_ is before


class Own(SampledSoftmax):
    """A loss of a user."""


class OwnSampler(RandomSampler):
    """A sampler of a user."""


def test_takes_samplers_that_ignore_weights():
    assert_same_network(on_threads(2, {"sampler": FrequencySampler()}), on_threads(1, {"sampler": "frequency"}))


@pytest.mark.parametrize(
    ("own", "message"),
    [
        ({"loss": "softmax"}, "executor needs loss='bce', got 'softmax'"),
        ({"loss": Own()}, "executor needs loss='bce', got Own"),
        ({"sampler": "lsh"}, "executor needs sampler='random', .* got 'lsh': others may need the weights"),
        ({"sampler": OwnSampler()}, "executor needs sampler='random', .* got OwnSampler"),
        ({"per_sample": True, "wide": False}, "executor does not support per_sample=True"),
        ({"time_budget": 5.0}, r"executor does not support time_budget=5\.0"),
    ],
)
def test_refuses_what_needs_all_labels(own, message):
    with pytest.raises(ValueError, match=message):
        on_threads(1, own)


@pytest.mark.parametrize("n_parts", [1, 2, 4, 8, 16])
def test_each_label_has_one_row_of_one_part(n_parts):
    plan = ShardPlan(n_parts, 37, 0, 1, None, False, None, None, None, 1)
    labels = [plan.labels_of(part, np.arange(plan.n_rows(part))) for part in range(n_parts)]
    assert sorted(np.concatenate(labels).tolist()) == list(range(37))
    for own in labels:
        np.testing.assert_array_equal(plan.rows_of(own), np.arange(len(own)))


def test_sums_do_not_depend_on_the_parts():
    values = np.random.default_rng(0).normal(size=(16, 50)).astype(np.float32)
    for n in (1, 2, 4, 8, 16):
        parts = [sum_in_pairs(values.__getitem__, 16 // n, 16 // n * part) for part in range(n)]
        np.testing.assert_array_equal(sum_in_pairs(parts.__getitem__, n), sum_in_pairs(values.__getitem__, 16))
