"""Measures every network in half precision and writes the tables of docs/networks.md.

Run from the top of the tree: `python -m benchmarks.networks_in_half [NETWORK...]`.

Without names it measures all networks, an hour or so on two cores and 6 GB. Results are kept in
`benchmarks/networks_in_half.json` after each network, so that a run that was stopped loses one, and
a network that changed can be measured alone. `--tables_only` writes the tables from what is kept.
"""

import argparse
import dataclasses
import json
import pathlib
import time

from benchmarks import network_graphs, network_runs, network_tables
from benchmarks.network_runs import oracle
from nets.nets_factory import NETWORKS
from slim_mp.compat import start_graph_mode, tf

ROOT = pathlib.Path(__file__).resolve().parent.parent
RESULTS = ROOT / "benchmarks" / "networks_in_half.json"
TABLES = ROOT / "docs" / "networks.md"


def measure_graph(name):
    """Counts what is in the training graph of a network at its published image size.

    Args:
      name: a name of `NETWORKS`.

    Returns:
      A dict of JSON values.
    """
    published = oracle.manifest(name)["variables"]
    with tf.Graph().as_default() as graph:
        _, logits, end_points = network_runs.build(
            name, True, "fp16", NETWORKS[name].image_size, 2, float32_kernels=False
        )
        variables = tf.model_variables()
        shapes = {variable.op.name: variable.shape.as_list() for variable in variables}
        dtypes = {variable.dtype.base_dtype for variable in variables}
        return {
            "variables": len(variables),
            "as_published": shapes == published and dtypes == {tf.float32},
            **_count(graph, logits, end_points),
        }


def _count(graph, logits, end_points):
    forward = graph.get_operations()
    tf.gradients(network_graphs.sparse_loss(logits, end_points), tf.trainable_variables())
    step = graph.get_operations()
    multiply_adds, _ = network_graphs.count_multiply_adds(forward)
    _, share_in_half = network_graphs.count_multiply_adds(step)
    return {
        "multiply_adds_an_image": multiply_adds // 2,
        "share_in_half": share_in_half,
        "casts_forward": network_graphs.count_casts(forward),
        "casts": network_graphs.count_casts(step),
        "float32_operations": network_graphs.float32_operations(forward),
    }


def measure_logits(name):
    """Compares the logits of a network in each precision.

    Args:
      name: a name of `NETWORKS`.

    Returns:
      A dict of JSON values.
    """
    size, original = oracle.size(name), oracle.logits(name)
    fits = oracle.activation_absmax(name) < network_runs.FP16_ACTIVATIONS
    statistics = None if fits else network_runs.statistics_of_images(name, size)
    with network_runs.open_session() as session:
        evaluation = network_runs.Evaluation(session, name, ("fp32", "fp16", "bf16"), size)
        exact = evaluation.logits("fp32")
        fp32_error = network_runs.relative_error(exact, original)
        if not fits:
            evaluation.set_variables(statistics)
            exact = evaluation.logits("fp32")
        halves = {precision: evaluation.logits(precision) for precision in ("fp16", "bf16")}
    # With the statistics of the images, float32 is the only reference.
    best = original if fits else exact
    return {
        "size": size,
        "activation_absmax": oracle.activation_absmax(name),
        "statistics": "oracle" if fits else "images",
        "fp32_error": fp32_error,
    } | {
        precision: {
            "difference": network_runs.relative_error(got, exact),
            "top1": network_runs.top1_agreement(got, best),
            "top5": network_runs.top5_agreement(got, best),
        }
        for precision, got in halves.items()
    }


def measure_steps(name):
    """Takes the first two steps of training in fp16 and in bf16, at the least image size.

    Args:
      name: a name of `NETWORKS`.

    Returns:
      A dict of JSON values.
    """
    size = NETWORKS[name].min_image_size
    batch_size = 16 if size < 128 else 4
    results = {"size": size, "batch_size": batch_size}
    for precision, scale in (("fp16", 2.0**15), ("bf16", 1.0)):
        steps = network_runs.Steps(precision, size, batch_size, init_loss_scale=scale)
        taken = network_runs.first_steps(name, steps)
        results[precision] = [dataclasses.asdict(step) for step in taken]
    return results


def measure(name):
    """Returns all that is measured of a network, a dict of JSON values."""
    return {
        "graph": measure_graph(name),
        "logits": measure_logits(name),
        "steps": measure_steps(name),
    }


def read_results():
    """Returns the results that are kept, a dict from the name of the network."""
    return json.loads(RESULTS.read_text()) if RESULTS.exists() else {}


def write_results(results):
    """Keeps results, in the order of the factory; a kill leaves the former ones whole."""
    rows = {name: results[name] for name in NETWORKS if name in results}
    lines = (f" {json.dumps(name)}: {json.dumps(row)}" for name, row in rows.items())
    partial = RESULTS.with_suffix(".partial")
    partial.write_text("{\n" + ",\n".join(lines) + "\n}\n")
    partial.replace(RESULTS)


def main(arguments=None):
    """Measures what `arguments` (those of the process unless given) say, and writes the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("networks", nargs="*", metavar="NETWORK", help="all unless given")
    parser.add_argument("--tables_only", action="store_true", help="measure nothing")
    args = parser.parse_args(arguments)
    unknown = set(args.networks) - set(NETWORKS)
    if unknown:
        parser.error(f"no network is called {', '.join(sorted(unknown))}")
    start_graph_mode()
    for name in [] if args.tables_only else args.networks or NETWORKS:
        start = time.perf_counter()
        row = measure(name)
        write_results({**read_results(), name: row})
        print(f"{name}: {time.perf_counter() - start:.0f} s", flush=True)
    text = network_tables.document(read_results(), network_runs.FP16_ACTIVATIONS)
    TABLES.write_text(text)


if __name__ == "__main__":
    main()
