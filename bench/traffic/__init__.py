"""The benchmark `python -m bench.traffic`: traffic between roles under several schedulers."""
