"""Published figures for comparison.

Source: "Beware of Fragmentation: Scheduling GPU-Sharing Workloads with Fragmentation Gradient Descent"
(USENIX ATC'23); the means over ten seeds come from the data in the repository of its simulator
(hkust-adsl/kubernetes-scheduler-simulator, analysis_allo_discrete.csv).
"""

SOURCE = "hkust-adsl/kubernetes-scheduler-simulator (USENIX ATC'23), mean of ten seeds"

ALLOCATED_AT_130 = {
    "default": {"Random": 87.47, "BestFit": 93.08, "FGD": 95.39},
    "cpu100": {"Random": 89.11, "BestFit": 93.44, "FGD": 95.35},
    "gpushare100": {"Random": 79.44, "BestFit": 85.01, "FGD": 86.90},
    "gpuspec33": {"Random": 86.46, "BestFit": 93.09, "FGD": 94.55},
    "multigpu50": {"Random": 90.28, "BestFit": 95.74, "FGD": 97.18},
}
"""Allocated devices in percent when 130 % had arrived, by list and policy."""
