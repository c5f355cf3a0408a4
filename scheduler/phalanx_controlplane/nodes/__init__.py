"""Real nodes: kubelet, containerd and runc, in namespaces of their own."""
