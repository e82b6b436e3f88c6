"""Networks for image classification, by name: see nets_factory."""

# Before any module here imports tf_slim: checks the versions and puts the aliases in place.
import slim_mp.compat  # noqa: F401
