"""Plays workflow files of Knavigator (https://github.com/NVIDIA/knavigator) on any cluster of this folder.

A workflow is a list of tasks: create nodes, submit objects from templates, check their pods and status,
update or delete them, change nodes, wait. The files stay where the user has them.
"""
