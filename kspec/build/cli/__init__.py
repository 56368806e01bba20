"""The command line: `app` has the options of all commands, each other module some commands."""

from kspec.build.cli import (  # commands register themselves
    building,
    cache,
    freezing,
    reporting,
    reviewing,
    running,
    setup,
    testing,
    tracing,
    tuning,
    upgrading,
)
from kspec.build.cli.app import app, exit_code, main

__all__ = [
    "app",
    "building",
    "cache",
    "exit_code",
    "freezing",
    "main",
    "reporting",
    "reviewing",
    "running",
    "setup",
    "testing",
    "tracing",
    "tuning",
    "upgrading",
]
