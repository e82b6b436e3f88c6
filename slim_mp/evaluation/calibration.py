"""Whether a network is right as often as it is sure: reliability and expected calibration error.

After Guo et al., "On Calibration of Modern Neural Networks" (arXiv:1706.04599), with their 15 bins.
"""

import numpy as np

BINS = 15


class Reliability:
    """Counts of answers by how sure the network was, in bins of equal width.

    Attributes:
      counts: int64 [BINS], answers of each bin; bin b holds confidences in (b/BINS, (b+1)/BINS].
      hits: int64 [BINS], how many of them are right.
      confidences: float64 [BINS], the sum of their confidences.
    """

    def __init__(self):
        self.counts = np.zeros(BINS, np.int64)
        self.hits = np.zeros(BINS, np.int64)
        self.confidences = np.zeros(BINS)

    def add(self, confidences, is_hit):
        """Adds answers.

        Args:
          confidences: float64 [batch], the probability of the class that was chosen.
          is_hit: bool [batch], whether it is the right one.
        """
        bins = np.clip(np.ceil(confidences * BINS).astype(np.int64) - 1, 0, BINS - 1)
        # One answer after the other, so that the sums do not depend on the size of a batch.
        np.add.at(self.counts, bins, 1)
        np.add.at(self.hits, bins, is_hit)
        np.add.at(self.confidences, bins, confidences)

    def error(self):
        """Returns the expected calibration error, a share of 1, or None without an answer.

        It is the mean over all answers of the distance, in the answer's bin, between the mean
        confidence and the share of right answers (equation 3 of Guo et al.).
        """
        total = self.counts.sum()
        return float(np.abs(self.hits - self.confidences).sum() / total) if total else None
