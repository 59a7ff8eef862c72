"""Runs a program as several processes on this machine; see docs/many_processes.md."""

from jax._src.launch.command_line import main as main
