"""A command with two workers that sleep for two minutes: for tests of how commands end."""

import os
import signal
import sys
import time

from phalanx_simulator.commands.workers import workers


def sleep(worker: int) -> None:
    os.write(sys.stdout.fileno(), f"{worker}\n".encode())  # at once: lines of two processes must not mix
    time.sleep(120)


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.default_int_handler)  # shells start background jobs with it ignored
    with workers(2) as pool:
        list(pool.map(sleep, range(2)))
