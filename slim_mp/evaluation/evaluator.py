"""A network put to the test on a dataset: each example once, for one checkpoint after the other."""

import contextlib
import dataclasses
import datetime
import math
import time

from absl import logging
from tqdm import tqdm

from slim_mp import data, distribution
from slim_mp.checkpoints import warm_start
from slim_mp.compat import tf
from slim_mp.data.bad_records import BadRecords
from slim_mp.data.class_names import Classes
from slim_mp.data.input_errors import INPUT_ERRORS, explain_input_error
from slim_mp.errors import DataError
from slim_mp.evaluation import eval_graph
from slim_mp.evaluation.metrics import TOP, Sums
from slim_mp.stop_signals import StopRequested

# Of moving averages that are in the checkpoint, perhaps, but not wanted.
LEFT_OUT = "left out"


@dataclasses.dataclass(frozen=True)
class InferenceConfig:
    """How the images of a dataset are put through a network.

    Attributes:
      input: a `data.InputConfig`; its batch_size is that of one clone.
      clones: a `distribution.Clones`.
      max_num_batches: batches to evaluate, or None for all.
      use_moving_averages: whether moving averages in the checkpoint go before the weights.
    """

    input: data.InputConfig
    clones: distribution.Clones
    max_num_batches: int | None = None
    use_moving_averages: bool = True

    @property
    def most_examples(self):
        """Examples to evaluate at most, or None for all."""
        return self.max_num_batches and self.max_num_batches * self.input.batch_size


@dataclasses.dataclass(frozen=True)
class Evaluation:
    """What came out for a checkpoint.

    Attributes:
      metrics: dict of what metrics.json holds.
      sums: the `metrics.Sums`.
      classes: the `Classes`.
    """

    metrics: dict
    sums: Sums
    classes: Classes


def settings(config, dataset):
    """Returns the part of the metrics that says what was evaluated how, without the checkpoint."""
    return {
        "dataset": dataset.name,
        "split": dataset.split,
        "dtype": config.input.compute_dtype.name,
        "image_size": config.input.image_size,
        "crops": config.input.crops,
        "central_fraction": config.input.central_fraction,
        "max_num_batches": config.max_num_batches,
    }


def is_alike(row, config, dataset):
    """Returns whether a row of evaluations.jsonl is of the same images, in the same way.

    Args:
      row: dict.
      config: an `InferenceConfig`.
      dataset: a `data.Dataset`.
    """
    wanted = settings(config, dataset)
    is_as_wanted = all(row.get(name) == value for name, value in wanted.items())
    return is_as_wanted and config.use_moving_averages == (row.get("moving_averages") != LEFT_OUT)


def modification_time(checkpoint):
    """Returns when a checkpoint was written, in the form of ISO 8601, or None if it is gone.

    Args:
      checkpoint: its prefix.
    """
    for path in (f"{checkpoint}.index", checkpoint):
        with contextlib.suppress(tf.errors.NotFoundError):
            seconds = tf.io.gfile.stat(path).mtime_nsec / 1e9
            time_written = datetime.datetime.fromtimestamp(seconds, datetime.timezone.utc)
            return time_written.isoformat(timespec="seconds")
    return None


class Evaluator:
    """A network for inference with its input, built once for any number of checkpoints."""

    def __init__(self, config, dataset, graph, session, bad_records):
        self._config = config
        self._dataset = dataset
        self._graph = graph
        self._session = session
        self._bad_records = bad_records
        self._restores = {}
        self._restored = {}
        self.classes = Classes.of(dataset, config.input.labels_offset)

    @classmethod
    @contextlib.contextmanager
    def open(cls, config, network_fn, dataset, with_names=False):
        """Builds the graph and opens a session.

        Args:
          config: an `InferenceConfig`.
          network_fn: as for `eval_graph.build`.
          dataset: a `data.Dataset`.
          with_names: whether the answers have the names of the images.

        Yields:
          The `Evaluator`.
        """
        bad_records = BadRecords(config.input.max_bad_records)
        graph = eval_graph.build(config, network_fn, dataset, with_names, bad_records)
        if graph.num_classes < TOP:
            logging.info("%d classes: top-%d says nothing, left out.", graph.num_classes, TOP)
        session_config = distribution.session_config(config.clones)
        # Not the default session, so that it may be opened and closed at any time.
        with contextlib.closing(tf.Session(graph=graph.graph, config=session_config)) as session:
            yield cls(config, dataset, graph, session, bad_records)

    def restore(self, checkpoint):
        """Gives the variables the values of a checkpoint.

        Args:
          checkpoint: what `warm_start.find_checkpoint` takes.

        Returns:
          The `RestorePlan` that was carried out.

        Raises:
          CheckpointError: if the checkpoint cannot be read or does not fit the network.
        """
        plan = warm_start.plan_evaluation(
            checkpoint, self._graph.variables, self._config.use_moving_averages
        )
        kind = (*plan.restored, *plan.cast.items())
        if kind not in self._restores:
            with self._graph.graph.as_default():
                self._restores[kind] = warm_start.restore_fn(plan)
        self._restores[kind](self._session, plan.checkpoint)
        # Now, since a run removes its checkpoints after a while.
        self._restored = {
            "step": warm_start.global_step_of(plan.checkpoint),
            "checkpoint": plan.checkpoint,
            "checkpoint_time": modification_time(plan.checkpoint),
            "moving_averages": _averages(plan, self._config),
        }
        return plan

    def evaluate(self, each_batch=None, is_stopped=None):
        """Evaluates the checkpoint that was restored last.

        Args:
          each_batch: function that is called with the answers to each batch, in the order of the
            dataset, or None.
          is_stopped: function that says whether to give up, asked after each batch, or None.

        Returns:
          An `Evaluation`.

        Raises:
          DataError: if a record cannot be used, or there is none.
          StopRequested: if `is_stopped` said so.
        """
        sums, clock = Sums(self.classes), _Clock()
        total = min(self._dataset.num_examples, self._config.most_examples or math.inf)
        with tqdm(total=total, unit="image", disable=None, leave=False) as bar:
            for answers in self._answers():
                count = len(answers["labels"])
                sums.add(answers)
                clock.count(count)
                bar.update(count)
                if each_batch:
                    each_batch(answers)
                if is_stopped and is_stopped():
                    raise StopRequested
        if not sums.num_examples:
            name, split = self._dataset.name, self._dataset.split
            raise DataError(f"The split {split} of {name} holds no example that can be used.")
        return Evaluation(self._metrics(sums, clock), sums, self.classes)

    def _answers(self):
        """Yields the answers to each batch of all clones."""
        left = self._config.most_examples
        try:
            self._session.run(self._graph.input_initializer)
            while left is None or left > 0:
                answers = self._session.run(self._graph.answers)
                # The last batches that were asked for may be fewer than there are clones.
                answers = {name: values[:left] for name, values in answers.items()}
                left = left and left - len(answers["labels"])
                yield answers
        except tf.errors.OutOfRangeError:
            return
        except INPUT_ERRORS as error:
            explain_input_error(error, self._dataset, self._config.input, self._bad_records)
            raise

    def _metrics(self, sums, clock):
        figures = sums.figures()
        if figures["no_answer"]:
            logging.warning(
                "%d of %d images have logits that are not finite; they count as wrong.",
                figures["no_answer"],
                figures["num_examples"],
            )
        by_class = figures.pop("per_class")
        return {
            **self._restored,
            **settings(self._config, self._dataset),
            **figures,
            **({"bad_records": self._bad_records.count} if self._bad_records.limit else {}),
            "images_per_second": clock.per_second(),
            "per_class": by_class,
        }


def _averages(plan, config):
    if not config.use_moving_averages:
        return LEFT_OUT
    return "used" if plan.averages else "none"


class _Clock:
    """How many images a second, from the end of the first batch on."""

    def __init__(self):
        self._images = 0
        self._begin = self._end = None

    def count(self, images):
        self._end = time.monotonic()
        if self._begin is None:
            self._begin = self._end
        else:
            self._images += images

    def per_second(self):
        return self._images / (self._end - self._begin) if self._images else None
