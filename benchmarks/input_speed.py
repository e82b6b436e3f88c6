"""Images per second that one core decodes and preprocesses, against the limit and other libraries.

Run from the top of the tree: `python -m benchmarks.input_speed`, with
`--peer_python=PATH` for other libraries that are installed in another environment.

The files are nearly as large as those of ImageNet, which have 110 kB on average; with smaller ones
(`--quality=90`) decoding is quicker, and the rest weighs more.

The limit is the bare decoding of the same files at the same crops. All pipelines run on one core
and take turns; what counts is the CPU time of an image, since other processes may share the
machine, and the ratio to the limit is the median over the rounds. Rows of TensorFlow and of the
project include batching; what else a training run does is in the row from record files.
"""

import argparse
import os
import pickle
import subprocess
import sys
import tempfile
import time

import numpy as np

from benchmarks import input_pipelines as pipelines
from benchmarks.input_peers import PEERS
from benchmarks.input_photographs import HEIGHT, WIDTH, jpeg_files
from slim_mp import data
from slim_mp.compat import start_graph_mode, tf

# Style and mode, each with a limit of its own.
TRAIN, EVALUATION = ("inception", True), ("inception", False)
VGG_TRAIN, VGG_EVALUATION = ("vgg", True), ("vgg", False)
TITLES = {
    TRAIN: "training, inception style",
    VGG_TRAIN: "training, vgg style",
    EVALUATION: "evaluation, inception style",
    VGG_EVALUATION: "evaluation, vgg style",
}
LIMIT = "limit: bare decoding of the crop"


class TensorFlowRow:
    """Batches of a tf.data.Dataset, in a graph and session of its own."""

    def __init__(self, make_batches, batch_size):
        self._batch_size = batch_size
        with tf.Graph().as_default():
            options = tf.data.Options()
            options.threading.private_threadpool_size = 1
            options.threading.max_intra_op_parallelism = 1
            batches = make_batches().with_options(options)
            following = tf.data.make_one_shot_iterator(batches).get_next()
            threads = {"intra_op_parallelism_threads": 1, "inter_op_parallelism_threads": 1}
            session = tf.Session(config=tf.ConfigProto(**threads))
            self._run = session.make_callable(tf.group(following))

    def measure(self, num_images):
        """Returns the CPU seconds of that many images."""
        _wait_until_idle()
        start = time.process_time()
        for _ in range(0, num_images, self._batch_size):
            self._run()
        _wait_until_idle()
        return time.process_time() - start


class PeerRow:
    """Another library in a process of its own."""

    def __init__(self, name, colours, mode, args, files):
        words = [name, "colours" if colours else "plain", mode, str(args.batch_size)]
        path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "input_peers.py")
        self._process = subprocess.Popen(
            [args.peer_python, path, *words], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        pickle.dump(files, self._process.stdin)
        self._process.stdin.flush()
        answer = self._process.stdout.readline().decode().strip()
        self.problem = None if answer == "ready" else answer or "it failed"

    def measure(self, num_images):
        """Returns the CPU seconds of that many images."""
        self._process.stdin.write(b"%d\n" % num_images)
        self._process.stdin.flush()
        return float(self._process.stdout.readline())

    def close(self):
        self._process.stdin.close()
        self._process.wait()


def _wait_until_idle():
    """What tf.data makes ahead belongs to the row it is for."""
    while True:
        before = time.process_time()
        time.sleep(0.02)
        if time.process_time() - before < 0.001:
            return


def draw_windows(style, is_training, count):
    """The windows of a style's crops for the seeds (0, 0) to (0, count), int32 [count, 4]."""
    with tf.Graph().as_default(), tf.Session() as session:
        seed = tf.placeholder(tf.int64, [2])
        window = pipelines.window_of(style, is_training, HEIGHT, WIDTH, seed)
        return np.array([session.run(window, {seed: [0, n]}) for n in range(count)])


def _batches(function, files, args):
    """A function that makes the endless batches of a pipeline."""

    def make():
        images = tf.constant(files)

        def prepare(number):
            seed = tf.stack([tf.constant(0, tf.int64), number])
            return function(images[number % len(files)], seed)

        return tf.data.Dataset.range(2**40).map(prepare).batch(args.batch_size)

    return make


def _from_records(files, folder, args, **choices):
    """A function that makes the batches of a training run."""
    records = [toy_record(files[n % len(files)]) for n in range(4 * args.batch_size)]
    with tf.io.TFRecordWriter(os.path.join(folder, "photographs_train.tfrecord")) as writer:
        for record in records:
            writer.write(record)
    dataset = data.open_dataset("photographs", "train", folder, num_classes=2)
    config = data.InputConfig(
        "inception",
        pipelines.SIZE,
        channels=3,
        batch_size=args.batch_size,
        compute_dtype=tf.float32,
        num_readers=1,
        num_preprocessing_threads=1,
        seed=0,
        **choices,
    )
    return lambda: data.training_batches(dataset, config)


def toy_record(encoded):
    """A serialized tf.train.Example of an image file."""
    features = {
        "image/encoded": tf.train.Feature(bytes_list=tf.train.BytesList(value=[encoded])),
        "image/class/label": tf.train.Feature(int64_list=tf.train.Int64List(value=[0])),
    }
    return tf.train.Example(features=tf.train.Features(feature=features)).SerializeToString()


def functions(num_windows):
    """What runs in TensorFlow.

    Args:
      num_windows: how many images are preprocessed at most.

    Returns:
      A dict of (style and mode, label) to a function of `input_pipelines`.
    """
    ours, documented, crop = pipelines.ours, pipelines.documented, pipelines.documented_crop
    limits = {
        (key, LIMIT): pipelines.bare_decoding(draw_windows(*key, num_windows)) for key in TITLES
    }
    return limits | {
        (TRAIN, "ours, --distortion=crop: crop, resize, flip, normalise"): ours(
            *TRAIN, distortion="crop"
        ),
        (TRAIN, "ours, --distortion=fast: and two changes of colours"): ours(
            *TRAIN, distortion="fast"
        ),
        (TRAIN, "ours, --distortion=bilinear: all colours, one resizing"): ours(
            *TRAIN, distortion="bilinear"
        ),
        (TRAIN, "ours, --distortion=full: four resizings, all colours"): ours(*TRAIN),
        (TRAIN, "TensorFlow: decode, convert, crop, resize, flip, scale"): documented(False),
        (TRAIN, "TensorFlow, decode_and_crop_jpeg"): crop(False),
        (TRAIN, "TensorFlow, all colours"): documented(True),
        (TRAIN, "TensorFlow, decode_and_crop_jpeg, all colours"): crop(True),
        (TRAIN, "slim's order: four resizings, all colours"): pipelines.slims_order,
        (VGG_TRAIN, "ours"): ours(*VGG_TRAIN),
        (EVALUATION, "ours"): ours(*EVALUATION),
        (EVALUATION, "TensorFlow: decode, convert, crop, resize, scale"): (
            pipelines.documented_evaluation
        ),
        (VGG_EVALUATION, "ours"): ours(*VGG_EVALUATION),
    }


def open_peers(args, files):
    """Starts the other libraries that are installed; says which are not.

    Returns:
      A dict of (style and mode, label) to `PeerRow`.
    """
    rows = {}
    for name in args.peers:
        for key, mode, colours in (
            (TRAIN, "train", False),
            (TRAIN, "train", True),
            (VGG_EVALUATION, "evaluation", False),
        ):
            row = PeerRow(name, colours, mode, args, files)
            if row.problem:
                print(f"{name} is left out: {row.problem}")
                row.close()
                break
            rows[key, name + (", all colours" if colours else "")] = row
    return rows


def measure(rows, num_images, rounds):
    """Times rows that take turns; in a first round, which does not count, kernels are compiled.

    Args:
      rows: dict of a key to an object with `measure`.
      num_images: images of each row in a round.
      rounds: rounds that count.

    Returns:
      A dict of key to an array [rounds] of CPU seconds an image.
    """
    taken = {key: [] for key in rows}
    for number in range(rounds + 1):
        order = list(rows) if number % 2 else list(reversed(rows))
        for key in order:
            seconds = rows[key].measure(num_images)
            if number:
                taken[key].append(seconds / num_images)
    return {key: np.array(seconds) for key, seconds in taken.items()}


def report(taken):
    """Prints a table for each style and mode: ratios are medians over the rounds."""
    for key, title in TITLES.items():
        print(f"\n{title:60}{'CPU ms':>8}{'images/s':>10}{'of limit':>10}")
        for (kind, label), seconds in taken.items():
            if kind == key:
                ratio = np.median(taken[key, LIMIT] / seconds)
                median = np.median(seconds)
                print(f"{label:60}{1e3 * median:8.2f}{1 / median:10.0f}{ratio:10.0%}")


def parse_arguments(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=15, help="rounds that count")
    parser.add_argument("--images", type=int, default=64, help="of each row in a round")
    parser.add_argument("--batch_size", type=int, default=32)
    parser.add_argument("--quality", type=int, default=97, help="of the JPEG files")
    parser.add_argument("--core", type=int, default=0, help="the one that everything runs on")
    parser.add_argument("--peers", nargs="*", default=list(PEERS), choices=PEERS)
    parser.add_argument("--peer_python", default=sys.executable, help="runs the other libraries")
    return parser.parse_args(arguments)


def main(arguments=None):
    args = parse_arguments(arguments)
    os.sched_setaffinity(0, {args.core})
    start_graph_mode()
    files = jpeg_files(args.quality)
    mean = sum(map(len, files)) / len(files) / 1000
    print(f"{len(files)} JPEG files of {WIDTH}x{HEIGHT}, {mean:.0f} kB on average, one core")
    with tempfile.TemporaryDirectory() as folder:
        rows = {
            key: TensorFlowRow(_batches(function, files, args), args.batch_size)
            for key, function in functions(args.images * (args.rounds + 2)).items()
        }
        label = "ours, --distortion=full, the whole input from record files"
        rows[TRAIN, label] = TensorFlowRow(_from_records(files, folder, args), args.batch_size)
        peers = open_peers(args, files)
        try:
            report(measure(rows | peers, args.images, args.rounds))
        finally:
            for row in peers.values():
                row.close()


if __name__ == "__main__":
    main()
