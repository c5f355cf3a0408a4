"""Online placement of single pods with GPU shares on the OpenB cluster, compared with published policies."""
