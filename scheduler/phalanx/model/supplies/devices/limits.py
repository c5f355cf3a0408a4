"""Bounds of claims, searches and selectors of devices, each with its unit and its reason."""

from typing import Final

CLAIM_DEVICES_MAX: Final = 32
"""Devices of one claim: the API stores no more in its status."""

CLAIM_CONSUMERS_MAX: Final = 256
"""Pods that can use one claim: the API stores no more in its status."""

CLAIM_SEARCH_STEPS_MAX: Final = 20_000
"""Devices that one search for the claims of a pod on a node tries: about 0.1 s. Nearly all searches need one
step for each device that they allocate."""

CLAIM_SEARCH_DEVICES_MAX: Final = 256
"""Devices that one search allocates together: each of them is a step of the search."""

EXTENDED_SHARES_MAX: Final = 256
"""Shares of one device that a node offers of an extended resource at most: more than pods run on a node. A
device may allow any number."""

SHARED_CHOICES_MAX: Final = 16
"""Choices of devices for the claims that a gang shares that are compared. The first ones are for most of the
pods of each claim; each costs a search on some of the nodes."""

SHARED_CHOICES_TRIED_MAX: Final = 16
"""Further choices for these claims that are tried where the first one does not place the gang. Each costs a
solve; most that cannot help are found by counting, or one solve proves that none can."""

SHARED_CHOICES_NODES_MAX: Final = 8_000
"""Nodes of all of these solves together, but at least two choices are tried: about a second."""

NODE_POOLS_CACHE_MAX: Final = 1 << 15
"""Nodes whose pools are kept while no slice changes: some hundred bytes each."""

DEVICE_COUNTERS_CACHE_MAX: Final = 1_000
"""Kinds of members whose counts are kept from cycle to cycle: gangs come with ever new
claims."""

DEVICE_SLOTS_CACHE_MAX: Final = 10_000
"""Kinds of nodes whose slots for one kind of member are kept: some kilobytes each."""

SHARED_KINDS_CACHE_MAX: Final = 1 << 16
"""Devices that several nodes can use whose kinds are kept for one kind of member: some hundred bytes each."""

DEVICE_NODE_SETS_MAX: Final = 64
"""Sets of nodes, other than all, whose devices of several nodes are bounded in one problem: each is a rule of
the solver."""

DEVICE_KINDS_TOGETHER_MAX: Final = 4
"""Kinds of requests of pods that are placed together and counted exactly: each set of them is a resource of
the solver."""

CEL_EXPRESSION_CHARACTERS_MAX: Final = 10 * 1024
"""Characters of a CEL expression: the limit of the API."""

CEL_COST_MAX: Final = 1_000_000
"""Evaluations of the bodies of its loops that an expression may cause, times the growth of texts, estimated:
the limit of the API, which estimates more exactly. A million evaluations take about half a second."""

CEL_EXPRESSIONS_MAX: Final = 4096
"""Compiled expressions that are kept: some kilobytes each. Clusters have a handful of device classes."""

CEL_RESULTS_MAX: Final = 1 << 18
"""Results of expressions that are kept: about 200 bytes each."""

DEVICE_BIND_TIMEOUT_S: Final = 600.0
"""Seconds in which the binding conditions of all devices of a placement must be true, as in kube-scheduler
(bindingTimeout)."""
