"""`python -m bench`: the end-to-end comparison; the other benchmarks of this folder run by their own name."""

from bench.backlog import main

if __name__ == "__main__":
    main()
