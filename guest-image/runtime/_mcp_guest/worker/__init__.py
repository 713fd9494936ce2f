"""The process that runs user code: reads frames, executes cells, and reports how each ended."""
