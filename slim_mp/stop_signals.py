"""Signals that ask a program to end: it ends at a place of its own choosing, with what it has."""

import signal
import threading

from absl import logging


class StopRequested(Exception):  # noqa: N818 (no error)
    """A signal came while there was nothing to save."""


class StopSignals:
    """While open, signals ask for a clean end; a second SIGINT ends at once.

    Clusters announce the end of a job with SIGTERM or SIGUSR1, a lost terminal with SIGHUP.

    Attributes:
      received: name of the first signal, or None.
      at_once: whether a signal raises StopRequested, since there is nothing to save yet.
    """

    _SIGNALS = (signal.SIGHUP, signal.SIGINT, signal.SIGTERM, signal.SIGUSR1)

    def __init__(self):
        self.received = None
        self.at_once = True
        self._previous = {}

    def __enter__(self):
        # Only the main thread of a program may handle signals.
        if threading.current_thread() is threading.main_thread():
            self._previous = {number: signal.getsignal(number) for number in self._SIGNALS}
            for number in self._SIGNALS:
                signal.signal(number, self._receive)
        return self

    def __exit__(self, *_):
        for number, handler in self._previous.items():
            signal.signal(number, handler)

    def _receive(self, number, _):
        if self.received and number == signal.SIGINT:
            raise KeyboardInterrupt
        self.received = self.received or signal.Signals(number).name
        if self.at_once:
            raise StopRequested
        logging.info("%s: saving after this step. A second Ctrl-C ends at once.", self.received)
