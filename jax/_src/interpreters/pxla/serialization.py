"""Compiled programs as bytes, with what is needed to call them in another process."""

from __future__ import annotations

import hashlib
import io
import pickle
import re
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np

from jax._src import compiler, hardware_utils, lib, xla_bridge
from jax._src.errors import JaxRuntimeError
from jax._src.interpreters.pxla.executable import MeshExecutable, ProgramInfo
from jax._src.interpreters.pxla.placement import Placement
from jax._src.lib import DeviceList

_MAGIC = b"jax executable 1\n"


def dump_executable(executable: MeshExecutable, more: Any) -> bytes:
    """Returns a program as bytes.

    Args:
      more: what the caller wants to keep with it.

    Raises:
      ValueError: if it calls functions of this process, or has no devices.
    """
    info, placement = executable._info, executable._placement
    if executable._has_host_callbacks:
        raise ValueError(
            f"{info.name} cannot be serialized, since it calls Python functions of this process"
            " (jax.pure_callback, jax.experimental.io_callback, jax.debug.print, ...). Remove the calls."
        )
    if compiler.is_compile_only(placement.backend):
        raise ValueError(
            f"{info.name} cannot be serialized: it is compiled for absent devices, whose"
            " compiler gives no executable that could be loaded."
        )
    fields = {name: getattr(info, name) for name in ProgramInfo.__slots__}
    fields["const_args"] = [np.asarray(x) for x in info.const_args]
    data = {
        "jaxlib": lib.version_str,
        "platform": placement.backend.platform,
        "platform_version": placement.backend.platform_version,
        "features": hardware_utils.processor_features(),
        "native_functions": _native_functions(executable),
        "number_of_devices": placement.num_devices,
        "device_ids": [d.id for d in placement.devices],
        "executable": _machine_code(executable),
        "info": fields,
        "placement": placement,
        "more": more,
        "shardings": (executable._in_shardings, executable._out_shardings),
    }
    body = _dump(data, placement.devices)
    return _MAGIC + hashlib.sha256(body).digest() + body


def load_executable(
    serialized: bytes,
    backend: Any,
    execution_devices: Sequence[Any] | None,
    register: Callable[[str, Sequence[str]], None],
) -> tuple[MeshExecutable, Any]:
    """Returns a program, and what was kept with it, from the bytes that `dump_executable` made.

    Args:
      backend: the client or the name of the platform that is to run it; by default the platform that it
        was compiled for.
      execution_devices: the devices that are to run it, in order; by default those with the same numbers.
      register: called with the platform's name and the names of the native functions that the program
        calls; registers those with the runtime that are registered only where they are needed.

    Raises:
      ValueError: if the bytes are not a program's, or are one of another platform, another version of
        jaxlib, a processor with more sets of instructions than this one, or other numbers of devices.
    """
    if not serialized.startswith(_MAGIC):
        raise ValueError(
            "The bytes are not a compiled program, as jax.experimental.serialize_executable.serialize returns it"
            f": they start with {serialized[:16]!r}."
        )
    checksum, body = serialized[len(_MAGIC) :][:32], serialized[len(_MAGIC) + 32 :]
    if hashlib.sha256(body).digest() != checksum:
        raise ValueError("The compiled program is damaged: its checksum is another one.")
    outer = pickle.loads(body)
    description = outer["description"]
    client = _client(backend, description)
    _check_origin(description, client)
    devices = _devices(client, description, execution_devices)
    register(client.platform, description["native_functions"])
    contents = _Unpickler(io.BytesIO(outer["contents"]), devices, client).load()
    return _assemble(contents, client, devices), contents["more"]


def _machine_code(executable: MeshExecutable) -> bytes:
    try:
        code: bytes = executable._placement.backend.serialize_executable(executable.xla_executable)
    except JaxRuntimeError as error:
        raise ValueError(
            f"{executable._info.name} cannot be serialized ({error}). Programs for CPUs that sort can be only before"
            " their first call: compile the function anew and serialize it then."
        ) from error
    return code


def _native_functions(executable: MeshExecutable) -> list[str]:
    """The names of the functions that a program calls which are not the compiler's own."""
    return sorted(set(re.findall(r'custom_call_target="([^"]+)"', executable.as_text())))


def _dump(data: dict[str, Any], devices: Sequence[Any]) -> bytes:
    contents = io.BytesIO()
    names = ("executable", "info", "placement", "shardings", "more")
    _Pickler(contents, devices).dump({name: data.pop(name) for name in names})
    return pickle.dumps({"description": data, "contents": contents.getvalue()})


class _Pickler(pickle.Pickler):
    """Writes devices as positions in the program's sequence of devices, and the client as one."""

    def __init__(self, file: io.BytesIO, devices: Sequence[Any]):
        super().__init__(file)
        self._positions = {d: i for i, d in enumerate(devices)}

    def persistent_id(self, obj: Any) -> Any:
        if isinstance(obj, lib.Device):
            return ("device", self._positions[obj])
        return ("client", 0) if isinstance(obj, lib.Client) else None


class _Unpickler(pickle.Unpickler):
    def __init__(self, file: io.BytesIO, devices: Sequence[Any] | None, client: Any):
        super().__init__(file)
        self._devices = devices
        self._client = client

    def persistent_load(self, pid: Any) -> Any:
        kind, position = pid
        return self._client if kind == "client" else self._devices[position]  # type: ignore[index]


def _client(backend: Any, description: dict[str, Any]) -> Any:
    if backend is None or isinstance(backend, str):
        return xla_bridge.get_backend(backend or description["platform"])
    return backend


def _check_origin(description: dict[str, Any], client: Any) -> None:
    for what, was, now in (
        ("platform", description["platform"], client.platform),
        ("version of jaxlib", description["jaxlib"], lib.version_str),
        ("version of the platform", description["platform_version"], client.platform_version),
    ):
        if was != now:
            raise ValueError(
                f"The program was compiled for another {what} than this process has: {was!r}, not {now!r}."
                " Compile it anew here."
            )
    missing = description["features"] - hardware_utils.processor_features()
    if client.platform == "cpu" and missing:
        raise ValueError(
            "The program was compiled for a processor with sets of instructions that this one lacks:"
            f" {', '.join(sorted(missing))}. Compile it anew here."
        )


def _devices(
    client: Any, description: dict[str, Any], execution_devices: Sequence[Any] | None
) -> tuple[Any, ...]:
    count = description["number_of_devices"]
    if execution_devices is None:
        by_id = {d.id: d for d in client.devices()}
        missing = [i for i in description["device_ids"] if i not in by_id]
        if missing:
            raise ValueError(
                f"The program was compiled for {count} devices with the numbers {description['device_ids']}, of"
                f" which there are no {missing} here. Pass {count} devices as execution_devices."
            )
        return tuple(by_id[i] for i in description["device_ids"])
    if len(execution_devices) != count:
        raise ValueError(
            f"The program was compiled for {count} devices, but execution_devices has {len(execution_devices)}."
        )
    return tuple(execution_devices)


def _assemble(contents: dict[str, Any], client: Any, devices: tuple[Any, ...]) -> MeshExecutable:
    placement: Placement = contents["placement"]
    grid = np.fromiter(devices, dtype=object, count=len(devices)).reshape(1, -1)
    device_list = DeviceList(devices)
    options = compiler.get_compile_options(
        num_replicas=1, num_partitions=len(devices), device_assignment=grid, backend=client
    )
    try:
        loaded = client.deserialize_executable(contents["executable"], device_list, options)
    except JaxRuntimeError as error:
        if "No FFI handler registered" in str(error):
            raise ValueError(
                f"The program calls a native function that this process lacks ({error}). Install the package"
                " that has it, such as jaxlib-ext, or register it by jax.ffi.register_ffi_target."
            ) from error
        raise ValueError(f"The compiled program is damaged ({error}).") from error
    in_shardings, out_shardings = contents["shardings"]
    info = ProgramInfo(**contents["info"])
    lowered = SimpleNamespace(host_callbacks=(), keepalive=None)
    return MeshExecutable(
        loaded, info, placement, device_list, in_shardings, out_shardings, lowered
    )
