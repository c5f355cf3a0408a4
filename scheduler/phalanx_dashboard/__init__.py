"""`phalanx dashboard`: pages about a cluster, with the data that the commands print."""
