"""What `phalanx convert` does with each kind of object: queues, PodGroups, and objects with pod templates.

What cannot be converted is an error by path. What is left out, or stays and means something else here, is a
note.
"""
