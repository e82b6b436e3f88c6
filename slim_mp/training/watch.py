"""Watches the steps of a run and says what went wrong, and where, before it ends one."""

import collections
import math

import numpy as np
from absl import logging

from slim_mp.checkpoints.scopes import few
from slim_mp.errors import NumericsError
from slim_mp.training.diagnosis import Diagnosis

_SCALES_REMEMBERED = 12
# A diagnosis fetches every output of the forward pass.
_MOST_WARNINGS = 3


class Watch:
    """Warns of steps that were skipped for their forward pass, and ends a run that is stuck."""

    def __init__(self, config, graph, session):
        """Starts watching.

        Args:
          config: a `TrainConfig`.
          graph: the `TrainGraph`.
          session: the session that runs it.
        """
        self._config = config
        self._graph = graph
        self._session = session
        self._warnings = 0
        self._scales = collections.deque(maxlen=_SCALES_REMEMBERED)

    def check(self, step, values):
        """Looks at a step that has been run.

        Args:
          step: the global step after it.
          values: dict of name to number, with the counters of the graph.

        Raises:
          NumericsError: if `max_consecutive_skips` steps in a row, up to this one, were skipped.
        """
        if not self._scales or self._scales[-1][1] != values["loss_scale"]:
            self._scales.append((step, values["loss_scale"]))
        skips = values["consecutive_skips"]
        if skips >= self._config.max_consecutive_skips:
            raise NumericsError(self._stuck(step, values))
        # No loss scale can cure a loss that is not finite; a gradient that is not is the ordinary
        # business of a dynamic one.
        if skips == 1 and not math.isfinite(values["loss"]) and self._warnings < _MOST_WARNINGS:
            self._warnings += 1
            logging.warning(
                "Step %d is skipped: its loss is %s. %s",
                step,
                values["loss"],
                self._find(step, values).text,
            )

    def check_state(self, step):
        """Makes sure that what is about to be saved can be trained on.

        Raises:
          NumericsError: if a weight, a statistic, a slot or a moving average is not finite.
        """
        if self._session.run(self._graph.state_is_finite):
            return
        bad = [
            variable.op.name
            for variable in self._graph.state
            if not np.isfinite(self._session.run(variable)).all()
        ]
        raise NumericsError(
            f"{len(bad)} of {len(self._graph.state)} variables are not finite after step {step}, "
            f"though all gradients were: {few(bad)}. They are not saved, and the last checkpoint "
            f"in {self._config.train_dir} is as it was. Go on from it with a smaller "
            "--learning_rate, or with --clip_gradient_norm."
        )

    def _find(self, step, values):
        return Diagnosis(self._graph.replay, self._session, step, values["loss_scale"]).find()

    def _stuck(self, step, values):
        finding = self._find(step, values)
        history = ", ".join(f"{scale:g} from step {number}" for number, scale in self._scales)
        return (
            f"{values['consecutive_skips']} steps in a row, up to step {step}, "
            f"were not finite ({values['applied_steps']} steps applied, {values['skipped_steps']} "
            f"skipped in all); --max_consecutive_skips is {self._config.max_consecutive_skips}. "
            f"{finding.text} Loss {values['loss']:g}, learning rate "
            f"{values['learning_rate']:g} and loss scale {values['loss_scale']:g}; the scale was "
            f"{history}. The last checkpoint in {self._config.train_dir} is as it was. "
            f"{_advice(finding, values)}"
        )


def _advice(finding, values):
    if math.isfinite(values["loss"]) and not finding.in_forward_pass:
        return (
            "The loss is finite, so the gradients overflow on their way: try --loss_scale=dynamic, "
            "a smaller --loss_scale or --min_loss_scale, or --dtype=bf16."
        )
    return (
        "The forward pass is not finite, which no loss scale can cure: try a smaller "
        "--learning_rate, --clip_gradient_norm, --dtype=bf16 or fp32, or look at the input."
    )
