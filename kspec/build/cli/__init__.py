"""The command line: `app` has the table of all commands, each other module some commands."""

from kspec.build.cli.app import app, exit_code, main

__all__ = ["app", "exit_code", "main"]
