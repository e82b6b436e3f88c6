"""Exports a TF-Slim image classifier: a SavedModel, a frozen graph, a TFLite model, or its graph.

export_inference_graph.py --checkpoint_path=CHECKPOINT --dtype=fp16 --export_dir=DIR
export_inference_graph.py --model_name=inception_v3 --output_file=FILE
"""

import contextlib
import functools
import sys

try:
    from nets import nets_factory
    from slim_mp.export import export, slim_graph
    from slim_mp.flags import export_flags
    from slim_mp.flags.program import run_program
except ImportError as error:
    hint = f"; pip install the project, or {error.name} alone" if error.name else ""
    print(f"export_inference_graph: error: {error}{hint}", file=sys.stderr)
    sys.exit(2)
except KeyboardInterrupt:
    sys.exit(130)


def main():
    """Exports as the flags say, and prints what was written."""
    export_flags.check()
    exported = export_flags.subject()
    get_network_fn = functools.partial(
        nets_factory.get_network_fn, exported.choices.model_name, exported.num_classes
    )
    network_fn = get_network_fn()
    config = export_flags.export_config(network_fn, exported)
    graph = export_flags.graph_file(network_fn, exported)
    results = []
    # Of several outputs none gets its name unless all can.
    with contextlib.ExitStack() as stack:
        if graph:
            to_write = get_network_fn(**export_flags.graph_arguments())
            stack.enter_context(slim_graph.written(to_write, *graph))
        if config:
            in_dtype = functools.partial(get_network_fn, **export_flags.network_arguments())
            networks = export.Networks(network_fn, in_dtype(), in_dtype(master_weights=False))
            results = export.export(config, networks)
    for written in results:
        print(export.describe(config, written))
    if graph:
        print(f"{graph[0]}: the graph of {network_fn.name}, without weights.")


def run():
    """Runs the console command."""
    export_flags.define_export_flags()
    run_program(main)


if __name__ == "__main__":
    run()
