"""Refuses a name before anything is written. `zephon new-plugin` looks closer; this is for plain `cookiecutter`."""

import keyword
import re
import sys

NAME = "{{ cookiecutter.name }}"

if not re.fullmatch("{{ cookiecutter._name }}", NAME) or keyword.iskeyword(NAME) or NAME == "conformance":
    sys.exit(f"{NAME!r} cannot be the name of a plugin: 2 to 32 lower-case letters, digits and single underscores")
