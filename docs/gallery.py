"""The pictures of docs/gallery.md, drawn of what kernels return on the host device.

``python docs/gallery.py`` writes them to ``docs/images``; they need matplotlib, and
``generated`` on the path.  Kernels of the examples are taken from there, so the pictures show what
they do.
"""

from __future__ import annotations

import runpy
import sys
from pathlib import Path
from typing import Any

import numpy as np
from kspec_kernels import activations, norms, statistics

import kspec

ROOT = Path(__file__).resolve().parents[1]
# A palette that stays apart for colour-blind readers (Okabe and Ito).
BLUE, ORANGE, GREEN, GREY = "#0072B2", "#E69F00", "#009E73", "#999999"
SKY = "#56B4E9"  # for dark grounds


def example(name: str) -> dict[str, Any]:
    """Return what a program of examples/ defines."""
    return runpy.run_path(str(ROOT / "examples" / f"{name}.py"))


def draw_activations(plt: Any) -> Any:
    """Draw shipped activations and the kernels that their `backward` makes."""
    x = np.linspace(-4, 4, 161)
    figure, axes = plt.subplots(1, 2, figsize=(8, 2.8), sharey=True)
    ones = np.ones_like(x)
    gelu = activations.gelu_bias(x, 0.0), activations.gelu_bias_backward(x, 0.0, ones)[0]
    relu = activations.clipped_relu(x, 2.0), activations.clipped_relu_backward(x, 2.0, ones)[0]
    for axis, (value, slope), title in zip(
        axes, (gelu, relu), ("gelu_bias", "clipped_relu, cap = 2"), strict=True
    ):
        axis.plot(x, value, color=BLUE, label="kernel")
        axis.plot(x, slope, color=ORANGE, label="its backward")
        axis.set_title(title)
        axis.grid(alpha=0.3)
    axes[0].set_ylim(-0.5, 2.6)
    axes[0].legend(frameon=False)
    return figure


def draw_reductions(plt: Any) -> Any:
    """Draw means, deviations and norms of the columns of random walks, each in one launch."""
    walks = np.random.default_rng(0).normal(size=(400, 60)).cumsum(axis=1)
    mean, variance = statistics.mean_var(walks, 1, axis=0)
    spread = np.sqrt(variance)
    figure, axis = plt.subplots(figsize=(8, 2.8))
    axis.plot(walks[:6].T, color=GREY, linewidth=0.4)
    steps = np.arange(walks.shape[1])
    axis.fill_between(steps, mean - spread, mean + spread, color=BLUE, alpha=0.3)
    axis.plot(mean, color=BLUE, label="mean_var, axis = 0")
    axis.plot(norms.l2norm(walks, axis=0) / 20, color=ORANGE, label="l2norm, axis = 0, over 20")
    axis.set_xlabel("step")
    axis.legend(frameon=False, loc="upper left")
    return figure


def draw_mandelbrot(plt: Any) -> Any:
    """Draw what the jitted kernel of an example counts, in more points."""
    kernel = example("jit_mandelbrot")["mandelbrot"]
    width, height, most = 336, 224, 60
    out = np.zeros((height, width), np.int32)
    kernel[(width // 16, height // 8), (16, 8)](out, most)
    figure = plt.figure(figsize=(3.36, 2.24))
    axis = figure.add_axes((0, 0, 1, 1))
    axis.imshow(np.sqrt(out), cmap="cividis", extent=(-2, 1, -1, 1), aspect="auto")
    axis.set_axis_off()
    return figure


def draw_heat(plt: Any) -> Any:
    """Draw the rod of an example after launches of ever more steps, all steps in one launch."""
    code = example("cooperative_heat")["CODE"]
    spread = kspec.RawKernel(code, "spread", enable_cooperative_groups=True)
    figure, axis = plt.subplots(figsize=(8, 2.8))
    for steps, colour in ((0, GREY), (100, GREEN), (500, ORANGE), (2500, BLUE)):
        rod = np.zeros(256, np.float32)
        rod[90:120], rod[170:180] = 100, 60
        spread((2,), (128,), (rod, np.empty_like(rod), rod.size, steps))
        axis.plot(rod, color=colour, label=f"{steps} steps")
    axis.set_xlabel("position")
    axis.set_ylabel("temperature")
    axis.legend(frameon=False)
    return figure


def draw_rotation(plt: Any) -> Any:
    """Draw an image, and what the texture of an example makes of it."""
    there = example("texture_rotate")
    rotate = kspec.RawKernel(there["CODE"], "rotate")
    height, width = there["HEIGHT"], there["WIDTH"]
    y, x = np.indices((height, width))
    image = (np.sin(x / 5) * np.cos(y / 7)).astype(np.float32)
    turned = np.empty_like(image)
    texture = there["smooth_texture"](image, kspec.Device("host"))
    sine, cosine = np.float32(np.sin(0.3)), np.float32(np.cos(0.3))
    rotate((6, 8), (16, 8), (texture, turned, width, height, sine, cosine))
    figure, axes = plt.subplots(1, 2, figsize=(6, 2.1))
    for axis, pixels in zip(axes, (image, turned), strict=True):
        axis.imshow(pixels, cmap="gray")
        axis.set_axis_off()
    figure.subplots_adjust(0, 0, 1, 1, 0.03)
    return figure


def draw_plate(plt: Any) -> Any:
    """Draw a plate before and after steps of a stencil of an example."""
    there = example("dask_heat")
    plate = there["hot_spots"]()
    figure, axes = plt.subplots(1, 2, figsize=(6, 2.25))
    for axis, heat in zip(axes, (plate, there["spread"](plate, 400)), strict=True):
        axis.imshow(heat, cmap="inferno", vmin=0, vmax=100)
        axis.set_axis_off()
    figure.subplots_adjust(0, 0, 1, 1, 0.03)
    return figure


def draw_smooth(plt: Any) -> Any:
    """Draw the signal of an example, and what forms of a mean and a filter make of it."""
    there = example("smooth_signal")
    x, bounds = there["temperatures"](), there["months"]()
    made = there["smooth"](x, bounds)
    figure, axes = plt.subplots(1, 2, figsize=(8, 2.8), sharey=True)
    lines = {
        "mean": (("so far", GREEN, "scan"), ("running", BLUE, "window")),
        "biquad": (("filtered", BLUE, "scan"), ("both ways", ORANGE, "there and back")),
    }
    for axis, (title, rows) in zip(axes, lines.items(), strict=True):
        axis.set_title(title)
        axis.plot(x, color=GREY, linewidth=0.4)
        for name, colour, label in rows:
            axis.plot(made[name], color=colour, label=label)
        axis.set_xlabel("day")
    axes[0].stairs(
        made["monthly"], bounds, baseline=None, color=ORANGE, linewidth=1.5, label="segments"
    )
    axes[0].set_ylabel("°C")
    axes[0].set_ylim(-15, 30)  # room for the legend
    for axis in axes:
        axis.legend(frameon=False, loc="lower center", ncols=3, fontsize=8, columnspacing=1)
    return figure


def draw_surface(plt: Any) -> Any:
    """Draw the relief of a surface, by the planes that an example fits to scanned points."""
    there = example("scanned_surface")
    seen, turns = there["scan"]()
    plane = there["planes"](seen, turns)
    slopes = plane[..., :2] * there["CELLS"]  # of the height along x and y
    towards = np.array([-1.0, 1.0, 2.0]) / np.sqrt(6)  # the light
    normals = np.concatenate([-slopes, np.ones_like(slopes[..., :1])], axis=-1)
    shade = normals @ towards / np.linalg.norm(normals, axis=-1)
    figure, axes = plt.subplots(1, 2, figsize=(6, 3))
    for axis, image, colours in zip(
        axes, (seen[..., 0, 2], shade), ("viridis", "gray"), strict=True
    ):
        axis.imshow(image, cmap=colours, origin="lower")
        axis.set_axis_off()
    figure.subplots_adjust(0, 0, 1, 1, 0.03)
    return figure


def draw_edges(plt: Any) -> Any:
    """Draw the image of an example, its blur by shipped stencils, and the edges in that."""
    there = example("image_blur")
    image = there["discs"]()
    blurred = there["blur"](image)
    figure, axes = plt.subplots(1, 3, figsize=(7.84, 2.56))
    for axis, pixels in zip(axes, (image, blurred, there["edges"](blurred)), strict=True):
        axis.imshow(pixels, cmap="gray", interpolation="nearest")
        axis.set_axis_off()
    figure.subplots_adjust(0, 0, 1, 1, 8 / 256)
    return figure


def draw_galaxies(plt: Any) -> Any:
    """Draw the bodies of an example after more and more steps, the cores in white."""
    there = example("n_body")
    x, v, mass = there["galaxies"]()
    figure, axes = plt.subplots(1, 3, figsize=(8, 2), facecolor="black")
    before = 0
    for axis, steps in zip(axes, (0, 95, 135), strict=True):
        there["leapfrog"](x, v, mass, steps - before)
        before = steps
        galaxies = x.reshape(2, -1, 3)
        for bodies, colour in zip(galaxies, (SKY, ORANGE), strict=True):
            axis.scatter(*bodies[:, :2].T, s=1, linewidths=0, color=colour)
        axis.scatter(*galaxies[:, 0, :2].T, s=8, linewidths=0, color="white")
        axis.set(xlim=(-3.6, 3.6), ylim=(-2.7, 2.7))
        axis.text(-3.4, 2.45, f"{steps} steps", color="white", va="top", fontsize=9)
        axis.set_axis_off()
    figure.subplots_adjust(0, 0, 1, 1, 0)
    return figure


def draw_song(plt: Any) -> Any:
    """Draw the spectrogram of an example over time and frequency."""
    there = example("spectrogram")
    rate, size, hop = there["RATE"], there["SIZE"], there["HOP"]
    level = np.abs(there["spectrogram"](there["song"]()))
    level = 20 * np.log10(level / level.max())
    # A pixel is as wide as a hop, around the middle of its stretch, and as high as a frequency.
    begin, half = (size - hop) / 2 / rate, rate / size / 2
    extent = (begin, begin + len(level) * hop / rate, -half, rate / 2 + half)
    figure, axis = plt.subplots(figsize=(8, 2.8), layout="constrained")
    image = axis.imshow(
        level.T, cmap="magma", vmin=-60, vmax=0, extent=extent, origin="lower", aspect="auto"
    )
    axis.set(xlabel="time (s)", ylabel="frequency (Hz)", ylim=(0, rate / 2))
    axis.set_yticks(range(0, rate // 2 + 1, 2000))
    figure.colorbar(image, label="level (dB)", pad=0.01, ticks=range(-60, 1, 20))
    return figure


def draw_softmax(plt: Any) -> Any:
    """Draw rows of the fused function of an example, at several scales."""
    softmax = example("fused_softmax")["softmax"]
    x = np.random.default_rng(3).normal(size=(1, 16)).astype(np.float32)
    figure, axis = plt.subplots(figsize=(8, 2.8))
    for number, (scale, colour) in enumerate(((0.5, GREY), (1.0, ORANGE), (3.0, BLUE))):
        places = np.arange(x.size) + 0.27 * (number - 1)
        axis.bar(places, softmax(x, scale)[0], 0.27, color=colour, label=f"scale {scale}")
    axis.set_xlabel("element of the row")
    axis.set_ylabel("softmax")
    axis.legend(frameon=False)
    return figure


# File to what draws it: lines as SVG, pixels as PNG.
PICTURES = {
    "activations.svg": draw_activations,
    "reductions.svg": draw_reductions,
    "edges.png": draw_edges,
    "galaxies.png": draw_galaxies,
    "mandelbrot.png": draw_mandelbrot,
    "heat.svg": draw_heat,
    "plate.png": draw_plate,
    "rotation.png": draw_rotation,
    "smooth.svg": draw_smooth,
    "softmax.svg": draw_softmax,
    "song.png": draw_song,
    "surface.png": draw_surface,
}


def main(folder: Path = ROOT / "docs/images") -> None:
    """Draw all pictures into a folder."""
    import matplotlib

    matplotlib.use("Agg")
    matplotlib.rcParams["svg.hashsalt"] = "kspec"  # same results, same file
    matplotlib.rcParams["svg.fonttype"] = "none"
    matplotlib.rcParams["path.simplify_threshold"] = 0.5
    import matplotlib.pyplot as plt

    folder.mkdir(parents=True, exist_ok=True)
    for name, draw in PICTURES.items():
        figure = draw(plt)
        metadata = {"Date": None} if name.endswith(".svg") else {"Software": None}
        layout = {} if name.endswith(".png") else {"bbox_inches": "tight"}
        figure.savefig(folder / name, dpi=100, metadata=metadata, **layout)
        plt.close(figure)
        print(f"{name}: {(folder / name).stat().st_size / 1000:.0f} kB")


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
