"""A tf.data service in a process of its own, as users have it: prints its address, ends with stdin.

A dispatcher and workers inside the process of the tests now and then took that with them.
"""

import contextlib
import os
import subprocess
import sys


@contextlib.contextmanager
def running_service(num_workers):
    """While open, there is a service; yields its address."""
    process = subprocess.Popen(
        [sys.executable, os.path.abspath(__file__), str(num_workers)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    try:
        yield process.stdout.readline().strip()
    finally:
        process.kill()
        process.communicate()


def serve(num_workers):
    """Runs a dispatcher and workers until the standard input is closed."""
    import tensorflow

    service = tensorflow.data.experimental.service
    dispatcher = service.DispatchServer()
    place = dispatcher.target.removeprefix("grpc://")
    config = service.WorkerConfig(dispatcher_address=place, heartbeat_interval_ms=100)
    workers = [service.WorkerServer(config) for _ in range(num_workers)]
    print(dispatcher.target, flush=True)
    sys.stdin.read()
    del workers


if __name__ == "__main__":
    serve(int(sys.argv[1]))
