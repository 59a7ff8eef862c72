"""Checks that an installed jax has the public names of the API that it implements.

python api_check.py NAMES            NAMES: api_names.json, beside this file
python api_check.py --write NAMES    writes it; run by the Python that has PyPI's jax (build.py oracle)
"""

import importlib
import json
import pkgutil
import sys
import types
import warnings

# What this package does not have (yet), what is of no use outside of a cloud or of a test, and names that are
# those of the jaxlib that is there.
ABSENT = (
    "jax.cloud_tpu_init",
    "jax.experimental.jax2tf",
    "jax.experimental.mosaic",
    "jax.extend.mlir",
    "jax.tools",
)
# Names that modules import for themselves.
INCIDENTAL = ("__future__", "collections.abc", "functools", "typing")


def public_modules() -> list[str]:
    import jax

    found = ["jax"]
    for module in pkgutil.walk_packages(jax.__path__, "jax.", onerror=lambda name: None):
        parts = module.name.split(".")
        inside = any(f"{module.name}.".startswith(f"{absent}.") for absent in ABSENT)
        # a module in a package of an experiment is its own affair: the package hands its names on
        inside = inside or (parts[1] == "experimental" and len(parts) > 3)
        if not inside and not any(part.startswith("_") for part in parts):
            found.append(module.name)
    return sorted(found)


def names_of(name: str) -> list[str]:
    """The public names of a module; none if it cannot be imported here."""
    try:
        module = importlib.import_module(name)
    except Exception:  # what it needs is not installed
        return []
    return [name for name in sorted(dir(module)) if _is_public(name, getattr(module, name, None))]


def _is_public(name: str, value: object) -> bool:
    if name.startswith("_") or name == "annotations" or isinstance(value, types.ModuleType):
        return False
    return getattr(value, "__module__", "") not in INCIDENTAL


def missing(table: dict[str, list[str]]) -> list[str]:
    lost = []
    for name, attributes in table.items():
        try:
            module = importlib.import_module(name)
        except Exception as error:
            lost.append(f"{name} ({type(error).__name__}: {error})")
            continue
        lost += [f"{name}.{a}" for a in attributes if not hasattr(module, a)]
    return lost


def main(arguments: list[str]) -> int:
    warnings.simplefilter("ignore")  # names that are deprecated are there
    if arguments[0] == "--write":
        table = {name: names_of(name) for name in public_modules()}
        table = {name: names for name, names in table.items() if names}
        with open(arguments[1], "w") as file:
            json.dump(table, file, indent=0, sort_keys=True)
            file.write("\n")
        return 0
    with open(arguments[0]) as file:
        table = json.load(file)
    lost = missing(table)
    total = sum(map(len, table.values()))
    print(f"{total - len(lost)} of {total} names")
    for name in lost:
        print(f"  {name} is missing")
    return int(bool(lost))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
