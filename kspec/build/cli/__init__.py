"""The command line: `app` has the options of all commands, each other module some commands."""

from kspec.build.cli import building, reporting, running, setup  # commands register themselves
from kspec.build.cli.app import app, exit_code, main

__all__ = ["app", "building", "exit_code", "main", "reporting", "running", "setup"]
