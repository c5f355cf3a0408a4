"""kube-scheduler 1.37 with its own gangs; the control plane has the program already."""
