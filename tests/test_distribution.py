"""Which devices clones run on, for machines of any number of GPUs."""

import pytest

from slim_mp import distribution
from slim_mp.compat import tf
from slim_mp.errors import UsageError


@pytest.mark.parametrize(
    ("clones", "on_cpu", "gpus", "devices", "idle"),
    [
        (1, False, 0, ["CPU:0"], 0),
        (3, False, 0, ["CPU:0", "CPU:1", "CPU:2"], 0),
        (1, False, 1, ["GPU:0"], 0),
        (1, False, 4, ["GPU:0"], 3),
        (4, False, 4, ["GPU:0", "GPU:1", "GPU:2", "GPU:3"], 0),
        (2, True, 4, ["CPU:0", "CPU:1"], 4),
    ],
)
def test_clones_take_the_first_devices(clones, on_cpu, gpus, devices, idle):
    found = distribution.local_clones(clones, on_cpu, num_gpus=gpus)
    assert found.devices == tuple(f"/device:{device}" for device in devices)
    assert found.idle_gpus == idle
    assert found.on_cpu == devices[0].startswith("CPU")


@pytest.mark.parametrize(
    ("clones", "gpus", "words"),
    [(0, 0, "at least 1"), (-1, 2, "at least 1"), (3, 2, r"sees 2 GPU\(s\).*--clone_on_cpu")],
)
def test_an_impossible_number_of_clones_is_refused(clones, gpus, words):
    with pytest.raises(UsageError, match=rf"--num_clones is {clones}.*{words}"):
        distribution.local_clones(clones, num_gpus=gpus)


def test_the_machine_is_asked_for_its_gpus():
    assert distribution.local_clones().on_cpu == (distribution.visible_gpus() == 0)


def test_the_description_says_what_is_idle_and_what_is_not_used():
    describe = {gpus: distribution.local_clones(1, num_gpus=gpus).describe() for gpus in (0, 1, 4)}
    assert describe[0] == "1 clone on /device:CPU:0; no GPU is used"
    assert describe[1] == "1 clone on /device:GPU:0"
    assert "3 visible GPU(s) stay idle (--num_clones)" in describe[4]


@pytest.mark.parametrize(
    ("clones", "variables_on", "operations_on"),
    [(1, "/device:GPU:0", "/device:GPU:0"), (2, "/device:CPU:0", "/device:GPU:1")],
)
def test_variables_that_clones_share_lie_on_the_cpu(clones, variables_on, operations_on):
    made = distribution.local_clones(clones, num_gpus=clones)
    with tf.Graph().as_default(), tf.device(made.device_function(clones - 1)):
        variable = tf.get_variable("weight", [2])
        total = tf.reduce_sum(variable)
    assert variable.device == variables_on
    assert total.device == operations_on


def test_a_session_has_a_device_for_each_clone_on_the_cpu_and_no_gpu():
    clones = distribution.local_clones(3, num_gpus=0)
    with tf.Graph().as_default():
        sums = []
        for index in range(3):
            with tf.device(clones.device_function(index)):
                sums.append(tf.reduce_sum(tf.random.uniform([4])))
        options, trace = tf.RunOptions(trace_level=tf.RunOptions.FULL_TRACE), tf.RunMetadata()
        with tf.Session(config=distribution.session_config(clones)) as session:
            assert not [d for d in session.list_devices() if d.device_type == "GPU"]
            session.run(sums, options=options, run_metadata=trace)
    used = {stats.device for stats in trace.step_stats.dev_stats}
    assert {device[-5:] for device in used} == {"CPU:0", "CPU:1", "CPU:2"}


def test_a_gpu_session_takes_memory_as_it_needs_and_falls_back():
    config = distribution.session_config(distribution.local_clones(1, num_gpus=1))
    assert config.gpu_options.allow_growth
    assert config.allow_soft_placement
    assert "GPU" not in config.device_count
