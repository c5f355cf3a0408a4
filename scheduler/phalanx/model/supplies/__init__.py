"""What nodes offer without listing it, one module for each kind: ports, disks, volumes."""
