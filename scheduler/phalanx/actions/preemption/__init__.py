"""The choice of victims, and the capacity that is nominated until they have terminated."""
