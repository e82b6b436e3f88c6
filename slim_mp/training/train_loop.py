"""The steps of a run one after the other, and what is done between them."""

import contextlib

from slim_mp.stop_signals import StopRequested
from slim_mp.training.watch import Watch


class Loop:
    """Runs steps until the last one, a signal, or an evaluation that is good enough."""

    def __init__(self, config, graph, session, writer, reporter):
        """Gets ready.

        Args:
          config: a `TrainConfig`.
          graph: the `TrainGraph`.
          session: a session in which its variables have been given values.
          writer: a `hooks.CheckpointWriter`.
          reporter: a `hooks.Reporter`.
        """
        self._config = config
        self._graph = graph
        self._session = session
        self._writer = writer
        self._reporter = reporter
        self._watch = Watch(config, graph, session)
        self._warned_step = None

    def run(self, step, signals, validation):
        """Runs steps.

        Args:
          step: the global step to go on from.
          signals: an open `StopSignals`.
          validation: a `Validation` or `NoValidation`.

        Returns:
          The global step reached, which is saved, and evaluated if it is the last.

        Raises:
          NumericsError, CheckpointError, DataError: as `train.train`.
        """
        signals.at_once = False
        is_last = step == self._config.max_number_of_steps
        while not is_last and not signals.received and not validation.is_reached:
            values = self._step(step)
            step += 1
            is_last = step == self._config.max_number_of_steps
            # The weights stand still while steps are skipped: saving them again and again would
            # drive out the checkpoints from before the trouble.
            if not values["consecutive_skips"]:
                self._save_or_evaluate(step, values, signals, validation)
        self._save(step)
        if is_last and not signals.received and validation.is_owed(step):
            self._evaluate(step, values, signals, validation)
        if is_last or validation.is_reached:
            self._warn_if_behind(step, values)
        return step

    def _step(self, step):
        """Runs and reports the step after `step`; returns its counters."""
        fetches = {"train_op": self._graph.train_op, **self._graph.counters}
        if self._reporter.wants(step + 1):
            fetches.update(self._graph.metrics)
        if self._reporter.wants_gradients(step + 1):
            fetches["zero_in_half"] = self._graph.meter.zero_in_half
        values = self._session.run(fetches)
        if self._graph.bad_records.limit:
            values["bad_records"] = self._graph.bad_records.count
        self._reporter.report(step + 1, values)
        self._watch.check(step + 1, values)
        return values

    def _save_or_evaluate(self, step, values, signals, validation):
        if validation.is_due(step):
            with self._reporter.paused():
                self._save(step)
                self._evaluate(step, values, signals, validation)
        elif self._writer.is_due():
            self._save(step)

    def _save(self, step):
        self._watch.check_state(step)
        self._writer.save(self._session, step)

    def _evaluate(self, step, values, signals, validation):
        """Evaluates what was just saved; a signal breaks it off, and the run makes up for it."""
        if self._warned_step is None:
            self._warn_if_behind(step, values)
        with contextlib.suppress(StopRequested):
            checkpoint = self._writer.path_of(step)
            validation.evaluate(step, checkpoint, is_stopped=lambda: signals.received)

    def _warn_if_behind(self, step, values):
        if step != self._warned_step:
            self._graph.batch_norms.warn_if_behind(int(values["applied_steps"]))
        self._warned_step = step
