"""Where histories come from: files of jobs, accounting records, snapshots."""
