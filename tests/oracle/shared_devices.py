"""Devices in shares: capacity with request policies, requests for amounts of it, and shares in use."""

from typing import Any, Final

from hypothesis import strategies as st

from tests.oracle.containers import rarely

Document = dict[str, Any]
Draw = st.DrawFn

_MEMORY_POLICIES: Final = (
    {},
    {"default": "10Gi"},
    {"default": "10Gi", "validValues": ["5Gi", "10Gi", "30Gi"]},
    {"default": "10Gi", "validRange": {"min": "10Gi"}},
    {"default": "10Gi", "validRange": {"min": "5Gi", "max": "30Gi", "step": "5Gi"}},
    {"default": "4Gi", "validRange": {"min": "1Gi", "step": "1500Mi"}},
)
_CORE_POLICIES: Final = (
    {},
    {"default": "0"},
    {"default": "1", "validValues": ["250m", "1", "2"]},
    {"default": "500m", "validRange": {"min": "100m", "step": "200m"}},
    {"default": "1", "validRange": {"min": "1", "max": "3"}},
    {"default": "1", "validRange": {"min": "1", "max": "3", "step": "1"}},
)
"""The default of the one with steps of 1500Mi is not a multiple: an old slice, which is not checked again."""

_MEMORY: Final = ("1Gi", "5Gi", "6Gi", "12Gi", "25Gi", "40Gi", "0", "0.5", "9223372036854775807")
_CORES: Final = ("100m", "250m", "300m", "1", "2500m", "3", "4", "0", "1u")
_IDS: Final = tuple(f"00000000-0000-4000-8000-00000000000{digit}" for digit in range(10))


@st.composite
def shared_capacity(draw: Draw) -> Document:
    """The capacity of a device that allows several allocations.

    Not both "memory" and the same name with its domain: which of them a selector of kube-scheduler sees is
    random.
    """
    found: Document = {}
    memory = "one.example.com/memory" if rarely(draw, 8) else "memory"
    for name, values, policies in (
        (memory, ("40Gi", "80000M"), _MEMORY_POLICIES),
        ("cores", ("4", "3500m"), _CORE_POLICIES),
    ):
        if draw(st.booleans()):
            found[name] = {"value": draw(st.sampled_from(values))}
            if policy := draw(st.sampled_from(policies)):
                found[name]["requestPolicy"] = policy
    return found


@st.composite
def asked_capacity(draw: Draw) -> Document:
    """What a request asks for of each device."""
    found: Document = {}
    if draw(st.booleans()):
        found["memory"] = draw(st.sampled_from(_MEMORY))
    if rarely(draw, 3):
        found["cores"] = draw(st.sampled_from(_CORES))
    if rarely(draw, 12):
        found[draw(st.sampled_from(("one.example.com/memory", "missing")))] = "1Gi"
    return {"requests": found}


@st.composite
def share_in_use(draw: Draw) -> Document:
    """What the status of a claim says of its share, beside the names of the device."""
    consumed: Document = {}
    if draw(st.booleans()):
        consumed["memory"] = draw(st.sampled_from(("5Gi", "10Gi", "30Gi", "0")))
    if draw(st.booleans()):
        consumed["cores"] = draw(st.sampled_from(("250m", "1", "3")))
    found: Document = {"shareID": draw(st.sampled_from(_IDS))}
    return found | ({"consumedCapacity": consumed} if consumed else {})
