"""The structures of XLA's C interface are where the installed JAX's own header has them."""

from __future__ import annotations

import ctypes
import struct
import subprocess
from pathlib import Path
from typing import Any

import pytest

from kspec.compiler.host import find_compiler

jax = pytest.importorskip("jax")

from kspec.jax import call_frame, target  # noqa: E402

# Our structure, XLA's name for it, and XLA's names of the fields in order.
STRUCTURES: list[tuple[Any, str, str]] = [
    (call_frame._Extension, "XLA_FFI_Extension_Base", "struct_size type next"),
    (
        call_frame._Version,
        "XLA_FFI_Api_Version",
        "struct_size extension_start major_version minor_version",
    ),
    (call_frame._Metadata, "XLA_FFI_Metadata", "struct_size api_version traits"),
    (call_frame._MetadataExtension, "XLA_FFI_Metadata_Extension", "extension_base metadata"),
    (call_frame._Buffers, "XLA_FFI_Args", "struct_size extension_start size types args"),
    (call_frame._Buffers, "XLA_FFI_Rets", "struct_size extension_start size types rets"),
    (call_frame._ByteSpan, "XLA_FFI_ByteSpan", "ptr len"),
    (call_frame._Attributes, "XLA_FFI_Attrs", "struct_size extension_start size types names attrs"),
    (
        call_frame._Api,
        "XLA_FFI_Api",
        "struct_size extension_start api_version internal_api XLA_FFI_Error_Create "
        "XLA_FFI_Error_GetMessage XLA_FFI_Error_Destroy XLA_FFI_Handler_Register XLA_FFI_Stream_Get",
    ),
    (
        call_frame.CallFrame,
        "XLA_FFI_CallFrame",
        "struct_size extension_start api ctx stage args rets attrs",
    ),
    (
        call_frame._ErrorArguments,
        "XLA_FFI_Error_Create_Args",
        "struct_size extension_start message errc",
    ),
    (
        call_frame._StreamArguments,
        "XLA_FFI_Stream_Get_Args",
        "struct_size extension_start ctx stream",
    ),
]
DTYPES = {
    "bool": "PRED",
    "bfloat16": "BF16",
    "complex64": "C64",
    "complex128": "C128",
    "float8_e5m2": "F8E5M2",
    "float8_e4m3fn": "F8E4M3FN",
}
BUFFER = "struct_size extension_start dtype data rank dims"


def test_fields_are_where_the_header_has_them(tmp_path: Path) -> None:
    expected: dict[str, int] = {}
    for structure, name, fields in STRUCTURES:
        classes = reversed(structure.__mro__)
        ours = [field[0] for one in classes for field in vars(one).get("_fields_", ())]
        for field, theirs in zip(ours, fields.split(), strict=True):
            expected[f"offsetof({name}, {theirs})"] = getattr(structure, field).offset
    ends = [struct.calcsize("NPiPqP"[: n + 1]) for n in range(6)]
    for theirs, end, size in zip(BUFFER.split(), ends, (8, 8, 4, 8, 8, 8), strict=True):
        expected[f"offsetof(XLA_FFI_Buffer, {theirs})"] = end - size
    expected["sizeof(XLA_FFI_Buffer)"] = call_frame._BUFFER.size
    expected["XLA_FFI_Error_Create_Args_STRUCT_SIZE"] = (
        call_frame._ErrorArguments.code.offset + ctypes.sizeof(ctypes.c_int)
    )
    expected["XLA_FFI_Stream_Get_Args_STRUCT_SIZE"] = ctypes.sizeof(call_frame._StreamArguments)
    expected["XLA_FFI_Extension_Metadata"] = call_frame._METADATA
    expected["XLA_FFI_Error_Code_INVALID_ARGUMENT"] = call_frame.INVALID_ARGUMENT
    expected["XLA_FFI_Error_Code_INTERNAL"] = call_frame.INTERNAL
    expected["XLA_FFI_HANDLER_TRAITS_COMMAND_BUFFER_COMPATIBLE"] = call_frame.RECORDABLE
    expected["XLA_FFI_API_MAJOR"] = call_frame.MAJOR
    for code, dtype in target._DTYPES.items():
        name = DTYPES.get(dtype) or dtype.replace("float", "F").replace("uint", "U")
        expected[f"XLA_FFI_DataType_{name.replace('int', 'S').upper()}"] = code
    lines = "".join(f'static_assert({text} == {value}, "");\n' for text, value in expected.items())
    source = tmp_path / "offsets.cc"
    source.write_text(f'#include <cstddef>\n#include "xla/ffi/api/c_api.h"\n{lines}')
    done = subprocess.run(
        [
            *find_compiler().command,
            "-std=c++17",
            "-fsyntax-only",
            f"-I{jax.ffi.include_dir()}",
            str(source),
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
