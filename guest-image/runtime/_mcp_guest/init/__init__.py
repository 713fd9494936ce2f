"""PID 1: makes the pipes, forks the worker, relays its output and frames to the host, and reaps."""
