"""Run programs in a process that may crash; `Worker.run` returns the kind of result."""

import contextlib
import importlib
import multiprocessing
import pathlib
import traceback
import warnings

import ml_dtypes
import numpy as np

import kspec

SECONDS = 300  # after which a program hangs
PACKAGE = str(pathlib.Path(kspec.__file__).parent)


def kind_of(error: Exception) -> str:
    """Say whether kspec refused, was wrong or failed inside, or the program itself is to blame."""
    if isinstance(error, kspec.KspecError):
        return "refused"
    frames = traceback.extract_tb(error.__traceback__)
    if any(frame.filename.startswith(PACKAGE) for frame in frames):
        return "internal"
    return "wrong" if isinstance(error, AssertionError) else "program"


def has_bfloat16(xp) -> bool:
    """Say whether a library has arrays of bfloat16, as CuPy has since 14."""
    try:
        xp.ones(1, ml_dtypes.bfloat16)
    except (TypeError, ValueError):
        return False
    return True


def run(text: str, path: str, device: str) -> tuple[str, str, str]:
    """Run a program as the file `path`; return its kind, what was said, and the traceback."""
    xp = importlib.import_module("cupy" if device == "cuda" else "numpy")
    get = xp.asnumpy if device == "cuda" else np.array
    if not has_bfloat16(xp):
        text = text.replace("bfloat16", "float16")
    pathlib.Path(path).write_text(text)  # `jit` reads the source of functions
    names = {"np": np, "xp": xp, "kspec": kspec, "jit": kspec.jit, "get": get, "__name__": "drawn"}
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore", RuntimeWarning)  # NumPy's, of empty rows
            exec(compile(text, path, "exec"), names)
    except Exception as error:
        return kind_of(error), f"{type(error).__name__}: {error}", traceback.format_exc()
    return "right", "", ""


def serve(pipe) -> None:
    """Run the programs that arrive, all in one CUDA context."""
    with contextlib.suppress(EOFError):  # the frame has ended
        while True:
            pipe.send(run(*pipe.recv()))


class Worker:
    """A process that runs programs, and is replaced when it ends or its context is lost."""

    process = None

    def run(self, *task: str) -> tuple[str, str, str]:
        """Run a program in the process; if that ends, it crashed."""
        if self.process is None:
            context = multiprocessing.get_context("spawn")
            self.pipe, other = context.Pipe()
            self.process = context.Process(target=serve, args=(other,), daemon=True)
            self.process.start()
            other.close()
        try:
            self.pipe.send(task)
            if self.pipe.poll(SECONDS):
                result = self.pipe.recv()
            else:
                result = "crashed", f"no end after {SECONDS} s", ""
        except (EOFError, OSError):
            self.process.join()
            result = "crashed", f"exit status {self.process.exitcode}", ""
        if result[0] not in ("right", "refused") or "DriverError" in result[1]:
            self.process.kill()
            self.process = None
        return result
