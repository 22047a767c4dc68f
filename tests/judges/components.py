"""Whether a bill of materials is CycloneDX 1.5, by the schema that its own library brings: components.py FILE."""

import sys

from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator

with open(sys.argv[1], encoding="utf-8") as file:
    fault = JsonStrictValidator(SchemaVersion.V1_5).validate_str(file.read())
if fault is not None:
    sys.exit(str(fault))
