"""scheduler-plugins' coscheduling: kube-scheduler 1.34 with a plugin that lets pods wait for their gang."""
