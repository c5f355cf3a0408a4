"""Other schedulers to compare with, one folder each; `make bench PEERS=all` adds them."""

from bench.harness.contenders import Contender

PEERS: tuple[Contender, ...] = ()
