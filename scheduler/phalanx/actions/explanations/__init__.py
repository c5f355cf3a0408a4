"""Why a gang waits, what would help, and which refusals still hold."""
