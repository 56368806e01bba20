"""``kspec init``: the name of a project in, its first files out.

::

    templates (lists of files), names (of projects, checked) -> project (texts) -> a folder
"""

from kspec.build.scaffold.names import module_name
from kspec.build.scaffold.project import NewProject, check_free, new_project, write_project
from kspec.build.scaffold.templates import DEFAULT, TEMPLATES, ProjectTemplate, find_template

__all__ = [
    "DEFAULT",
    "TEMPLATES",
    "NewProject",
    "ProjectTemplate",
    "check_free",
    "find_template",
    "module_name",
    "new_project",
    "write_project",
]
