"""Pictures of an evaluation: which classes are taken for which, and how sure to be of an answer.

They need matplotlib, which is in the extra `plot`.
"""

import io
import os

from slim_mp.evaluation.confusion_plot import draw_confusion
from slim_mp.evaluation.metrics import describe
from slim_mp.evaluation.reliability_plot import draw_reliability
from slim_mp.files.output_files import write_whole

CONFUSION_NAME = "confusion_matrix.png"
RELIABILITY_NAME = "reliability.png"
_DPI = 130


def _png(figure):
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    FigureCanvasAgg(figure)
    file = io.BytesIO()
    figure.savefig(file, format="png", dpi=_DPI, bbox_inches="tight", pad_inches=0.25)
    return file.getvalue()


def write_plots(folder, evaluation):
    """Draws the confusion matrix and the reliability diagram.

    Args:
      folder: where to.
      evaluation: an `evaluator.Evaluation`.

    Raises:
      ImportError: if matplotlib is not installed.
      OSError: if they cannot be written; each file is whole or as it was.
    """
    metrics = evaluation.metrics
    figures = describe({**metrics, "images_per_second": None})
    what = f"{metrics['dataset']}, {metrics['split']}: {figures}"
    pictures = {
        CONFUSION_NAME: draw_confusion(evaluation.sums.pairs, evaluation.classes, what),
        RELIABILITY_NAME: draw_reliability(evaluation.sums.reliability, what),
    }
    for name, figure in pictures.items():
        write_whole(os.path.join(folder, name), _png(figure))
