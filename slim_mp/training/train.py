"""Training: where a run starts, the loop over its steps, and how it ends."""

import dataclasses
import glob
import random

from absl import logging

from slim_mp import distribution
from slim_mp.checkpoints import trained_with, warm_start
from slim_mp.compat import tf
from slim_mp.data.input_errors import INPUT_ERRORS, explain_input_error
from slim_mp.errors import CheckpointError, UsageError
from slim_mp.files.output_files import make_folder, only_run_in
from slim_mp.stop_signals import StopRequested, StopSignals
from slim_mp.training import auto_scale, optimizers
from slim_mp.training.hooks import CheckpointWriter, Reporter, check_metrics_file
from slim_mp.training.train_graph import build_graph
from slim_mp.training.train_loop import Loop
from slim_mp.training.validation import Validation


def _start_checkpoint(config):
    """The checkpoint of train_dir to go on from, or None, as `resume` allows."""
    latest = warm_start.latest_checkpoint(config.train_dir)
    # Without an index a checkpoint was never whole: a run was killed while it wrote its first.
    if (
        not latest
        and config.resume != "never"
        and glob.glob(f"{glob.escape(config.train_dir)}/*.index")
    ):
        raise CheckpointError(
            f"{config.train_dir} holds checkpoints, but none that can be read: restore them, give "
            "another --train_dir, or start over with --resume=never."
        )
    if config.resume == "never" and latest:
        raise UsageError(
            f"--resume=never, but {config.train_dir} holds the checkpoint {latest}: give another "
            "--train_dir, or remove what is in this one."
        )
    if config.resume == "must" and not latest:
        raise CheckpointError(
            f"--resume=must, but {config.train_dir} holds no complete checkpoint: check "
            "--train_dir, or start with --resume=auto."
        )
    given = config.warm_start.checkpoint_path
    if latest and given:
        logging.warning(
            "Going on from %s at step %s; --checkpoint_path=%s is ignored, since --train_dir "
            "already holds a checkpoint.",
            latest,
            warm_start.global_step_of(latest),
            given,
        )
    return latest


def _restore_function(config, graph, resume_from):
    """Plans what the variables begin with; returns a function of a session that restores it."""
    if resume_from:
        plan = warm_start.plan_resume(
            resume_from, tf.global_variables(), optional=graph.loss_scale_variables
        )
    elif config.warm_start.checkpoint_path:
        plan = warm_start.plan_warm_start(
            config.warm_start.checkpoint_path,
            graph.model_variables,
            exclude_scopes=config.warm_start.exclude_scopes,
            ignore_missing=config.warm_start.ignore_missing_vars,
        )
    else:
        return lambda session: None
    for line in plan.report().splitlines():
        logging.info("%s", line)
    return warm_start.restore_fn(plan)


def _write_facts(config, network_fn, dataset):
    offset = config.input.labels_offset
    facts = trained_with.TrainedWith(
        model_name=getattr(network_fn, "name", None),
        num_classes=dataset.num_classes - offset,
        labels_offset=offset,
        preprocessing=config.input.preprocessing,
        image_size=config.input.image_size,
        label_names=trained_with.names_of_classes(dataset.label_names, offset),
        max_number_of_steps=config.max_number_of_steps,
    )
    trained_with.write(config.train_dir, facts)


def _log_start(config, dataset, start_step):
    """Says what is about to run, in the terms that decide speed and schedule."""
    steps = optimizers.decay_steps(
        config.learning_rate, dataset.num_examples, config.images_of_schedule
    )
    logging.info("%s.", config.clones.describe())
    logging.info(
        "Compute dtype %s, %s; variables, losses and updates float32.",
        config.precision.compute_dtype.name,
        config.loss_scale.describe(),
    )
    logging.info(
        "%d images of %d classes (%s, split %s); %d images a step; %s; seed %s; starting at step "
        "%d.",
        dataset.num_examples,
        dataset.num_classes,
        dataset.name,
        dataset.split,
        config.images_per_step,
        config.learning_rate.describe(steps),
        "none" if config.input.seed is None else config.seed,
        start_step,
    )


@dataclasses.dataclass(frozen=True)
class TrainResult:
    """How a run ended.

    Attributes:
      step: the global step reached.
      stopped: whether a signal ended it before max_number_of_steps.
    """

    step: int
    stopped: bool


def _with_position(config, start_step):
    """The config with the seed and the place in the input stream that a run goes on with.

    Without a seed the order of the input is not repeatable, and there is nothing to skip.
    """
    seen = 0 if config.seed is None else start_step * config.images_per_step
    step_input = dataclasses.replace(config.input, seed=config.seed, start_example=seen)
    seed = random.SystemRandom().randrange(2**31) if config.seed is None else config.seed
    return dataclasses.replace(config, input=step_input, seed=seed)


def train(config, network_fn, dataset):
    """Trains a network, from a checkpoint of train_dir if it holds one.

    Args:
      config: a `TrainConfig`.
      network_fn: as for `build_graph`.
      dataset: a `data.Dataset`.

    Returns:
      A `TrainResult`. A checkpoint of its step lies in train_dir.

    Raises:
      UsageError: if train_dir or the metrics file cannot be used, or a scope holds no variable.
      DataError: if a record cannot be used.
      NumericsError: if max_consecutive_skips steps in a row were not finite, or weights are not.
      CheckpointError: if a checkpoint cannot be read, does not fit or cannot be written.
    """
    make_folder(config.train_dir, "train_dir")
    check_metrics_file(config)
    resume_from = _start_checkpoint(config)
    start_step = (warm_start.global_step_of(resume_from) or 0) if resume_from else 0
    is_trained = _is_trained(config, start_step, resume_from)
    if is_trained and not config.validation:
        return TrainResult(start_step, stopped=False)
    with (
        only_run_in(config.train_dir),
        StopSignals() as signals,
        Validation.open(config, start_step) as validation,
    ):
        try:
            if validation.is_owed(start_step):
                validation.evaluate(start_step, resume_from)
            if is_trained or validation.is_reached:
                return TrainResult(start_step, stopped=False)
            around = (signals, validation)
            step = _train_from(start_step, resume_from, config, network_fn, dataset, around)
        except StopRequested:
            logging.info("Stopped by %s before step %d.", signals.received, start_step + 1)
            return TrainResult(start_step, stopped=True)
        is_last = step == config.max_number_of_steps or validation.is_reached
        stopped = not is_last or validation.is_owed(step)
    if signals.received:
        logging.info("Stopped by %s; saved step %d.", signals.received, step)
    logging.info("Step %d is in %s: give it to --checkpoint_path.", step, config.train_dir)
    return TrainResult(step, stopped)


def _is_trained(config, start_step, resume_from):
    last_step = config.max_number_of_steps
    is_trained = last_step is not None and start_step >= last_step
    if is_trained:
        logging.info(
            "Already trained to step %d (%s); --max_number_of_steps is %d.",
            start_step,
            resume_from,
            last_step,
        )
    return is_trained


def _train_from(start_step, resume_from, config, network_fn, dataset, around):
    """Builds the graph, restores it and runs its steps; returns the step reached.

    `around` is the `StopSignals` and the `Validation`.
    """
    validation = around[1]
    config = _with_position(config, start_step)
    logging.info("Building the graph of %s.", getattr(network_fn, "name", "the network"))
    with tf.Graph().as_default():
        tf.set_random_seed(config.seed)
        graph = build_graph(config, network_fn, dataset)
        restore = _restore_function(config, graph, resume_from)
        _write_facts(config, network_fn, dataset)
        writer = CheckpointWriter(config.train_dir, config.save_interval_secs)
        initializer = tf.group(
            tf.global_variables_initializer(),
            tf.local_variables_initializer(),
            graph.input_initializer,
        )
        _log_start(config, dataset, start_step)
        graph.batch_norms.log_start(config)
        validation.prepare()
        with (
            tf.Session(config=distribution.session_config(config.clones)) as session,
            Reporter.open(config, start_step) as reporter,
        ):
            tf.get_default_graph().finalize()
            session.run(initializer)
            restore(session)
            try:
                if config.loss_scale.auto and not auto_scale.is_saved(resume_from):
                    auto_scale.set_scale(config, graph, session)
                step = Loop(config, graph, session, writer, reporter).run(start_step, *around)
            except INPUT_ERRORS as error:
                explain_input_error(error, dataset, config.input, graph.bad_records)
                raise
        if validation.is_reached:
            # Whoever follows the run need not wait for more.
            _write_facts(dataclasses.replace(config, max_number_of_steps=step), network_fn, dataset)
        return step
