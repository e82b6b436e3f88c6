"""What the command-line programs have in common: flags in, exit code out, one line for an error."""

import contextlib
import os
import signal
import sys

from absl import app, flags, logging

from slim_mp.compat import start_graph_mode
from slim_mp.errors import (
    EXIT_BY_SIGNAL,
    EXIT_INTERRUPTED,
    EXIT_OK,
    EXIT_STOPPED,
    EXIT_UNEXPECTED,
    SlimMPError,
    UsageError,
)
from slim_mp.files.input_files import shown

_MODULES_WITH_FLAGS = (
    "slim_mp.flags.flag_groups",
    "slim_mp.flags.update_flags",
    "slim_mp.flags.input_flags",
    "slim_mp.flags.eval_flags",
    "slim_mp.flags.subject_flags",
    "slim_mp.flags.export_flags",
    "slim_mp.flags.predict_flags",
    "slim_mp.flags.checkpoint_flags",
    "slim_mp.flags.report_flags",
    "slim_mp.flags.conversion_flags",
)


def _program():
    """What the user typed: the name of a script, or of a module after `python -m`."""
    module = sys.modules["__main__"].__spec__
    if module and module.origin == sys.argv[0]:
        return module.name
    return os.path.basename(sys.argv[0])


def _fail(error, exit_code):
    print(f"{_program()}: error: {error}", file=sys.stderr)
    sys.exit(exit_code)


def _parse_flags(argv, description):
    if {"-h", "-help", "--help"} & set(argv[1:]):
        # Absl's own --help lists the flags of the main module alone and ends with an error.
        ours = [name for name in flags.FLAGS.flags_by_module_dict() if name in _MODULES_WITH_FLAGS]
        print(description, *map(flags.FLAGS.module_help, ours), sep="\n")
        sys.exit(EXIT_OK)
    try:
        return flags.FLAGS(argv)
    except flags.Error as error:
        _fail(f"{error} (--help lists the flags)", UsageError.exit_code)


def check_unicode(name, value):
    """Refuses bytes that are no UTF-8, which neither TensorFlow nor a file of text can take.

    Args:
      name: what the value was given for, such as --train_dir.
      value: what was given; a list is looked through, and what is no text is passed over.

    Raises:
      UsageError: if it holds such bytes.
    """
    for text in value if isinstance(value, (list, tuple)) else [value]:
        try:
            str(text).encode("utf-8")
        except UnicodeEncodeError as error:
            raise UsageError(
                f"{name} is {shown(text)}, which is not UTF-8; give a name that is, or a link that "
                "has one."
            ) from error


@contextlib.contextmanager
def _exiting_when_terminated():
    """Ends by an exception, so that what is half written is removed; training does more."""
    # What was told to ignore a signal, as by nohup, goes on ignoring it.
    default = [n for n in (signal.SIGTERM, signal.SIGHUP) if signal.getsignal(n) == signal.SIG_DFL]
    for number in default:
        signal.signal(number, lambda received, _: sys.exit(EXIT_BY_SIGNAL + received))
    try:
        yield
    finally:
        for number in default:
            signal.signal(number, signal.SIG_DFL)


def run_program(main, takes_operands=False):
    """Parses the flags, runs a program in graph mode, and exits.

    An error that a user can mend is one line on stderr; any other is a traceback and exit code 1.

    Args:
      main: function without arguments, or of the list of operands. It returns whether a signal
        stopped the program after its work was saved, which exits with 75, or None or False, which
        exits with 0.
      takes_operands: whether anything but flags may stand on the command line.
    """

    def run(arguments):
        if len(arguments) > 1 and not takes_operands:
            _fail(
                f"unexpected argument {arguments[1]!r}; flags begin with --", UsageError.exit_code
            )
        for name in flags.FLAGS:
            check_unicode(f"--{name}", flags.FLAGS[name].value)
        logging.set_verbosity(logging.INFO)
        start_graph_mode()
        with _exiting_when_terminated():
            stopped = main(arguments[1:]) if takes_operands else main()
        sys.stdout.flush()
        return EXIT_STOPPED if stopped else EXIT_OK

    description = sys.modules[main.__module__].__doc__ or ""
    try:
        app.run(run, flags_parser=lambda argv: _parse_flags(argv, description))
    except SlimMPError as error:
        _fail(error, error.exit_code)
    except KeyboardInterrupt:
        _fail("interrupted; what is not saved is lost", EXIT_INTERRUPTED)
    except BrokenPipeError:
        # Whoever reads the output has seen enough; the flush at exit must not fail again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except OSError as error:
        _fail(f"{error.filename or 'the output'}: {error.strerror}", EXIT_UNEXPECTED)
